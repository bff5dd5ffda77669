"""`python -m kip848_spark` is `kip848`."""

from kip848_spark.cli import command

if __name__ == "__main__":
    command()
