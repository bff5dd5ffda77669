"""`python -m kip848_spark` is `kip848`."""

from kip848_spark.cli import main

if __name__ == "__main__":
    main()
