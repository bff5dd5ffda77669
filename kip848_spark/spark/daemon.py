"""PySpark's daemon, which forks the Python workers of a local session.

When Spark stops, it closes the sockets of idle workers and tells the daemon to end them. PySpark's
own worker treats a closed socket as a failed task: it reports the failure to the closed socket and
writes a traceback to standard error. This worker exits instead.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_work = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Runs the next task that arrives through ``sock``, and returns its exit code."""
    if not sock.recv(1, socket.MSG_PEEK):
        os._exit(0)
    return int(_work(sock, authenticated))


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
