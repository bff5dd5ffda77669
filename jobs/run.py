"""spark-submit twin of `kip848 run`: the same options, on the cluster's session."""

import sys

from kip848_spark.__main__ import command

if __name__ == "__main__":
    sys.argv.insert(1, "run")
    command()
