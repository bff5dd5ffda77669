"""Where the command `kip848` and `python -m kip848_spark` begin."""

import signal
import threading


def command() -> None:
    """Imports the command line and runs it. A Ctrl-C during the imports ends the process without a
    traceback."""
    is_main = threading.current_thread() is threading.main_thread()
    quiet = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if quiet:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kip848_spark.cli import command as run

    if quiet:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    command()
