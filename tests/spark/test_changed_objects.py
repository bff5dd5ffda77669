"""A lease that its owner rewrites while another run reads it: the store refuses to send the rest of
the older object, and it is read again.

Stores answered so (the messages are parts of theirs), but no store does it on demand. The folder
here fails as often as it is told to."""

from __future__ import annotations

import pytest

from kip848_spark.spark.hadoop import HadoopFolder

SEEN = [
    "Premature EOF",
    "pos must be less than content length",
    "Remote file changed",
    "ConditionNotMet",
]


class Rewritten(HadoopFolder):
    """A folder of a file that is rewritten during the first ``times`` reads."""

    def __init__(self, message: str, times: int) -> None:
        self.uri = "s3a://bucket/lake"
        self.left = times
        self.message = message

    def _read_once(self, name: str) -> bytes | None:
        if self.left:
            self.left -= 1
            raise OSError(self.message)
        return b"new"


@pytest.mark.parametrize("message", SEEN)
def test_it_is_read_again(message: str) -> None:
    assert Rewritten(message, 3).read("lease.json") == b"new"


def test_one_that_never_rests_is_an_error() -> None:
    with pytest.raises(OSError, match="Premature EOF"):
        Rewritten(SEEN[0], 1_000).read("lease.json")


def test_another_fault_is_not_hidden() -> None:
    folder = Rewritten("Status Code: 403; Access Denied", 1)
    with pytest.raises(OSError, match="403"):
        folder.read("lease.json")
    assert folder.left == 0
