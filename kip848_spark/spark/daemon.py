"""PySpark's daemon, which forks the Python workers of a local session.

When Spark stops, it closes the sockets of the workers that wait for a task, and has the daemon end
them. A worker that sees its socket closed first would take it for a failed task: it would report
that to the closed socket, and write a traceback to standard error. Here it ends.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_work = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Runs the next task that comes in through ``sock``; its exit code."""
    if not sock.recv(1, socket.MSG_PEEK):
        os._exit(0)
    return int(_work(sock, authenticated))


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
