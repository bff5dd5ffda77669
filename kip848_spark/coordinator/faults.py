"""What a request is refused with, and what a log is refused with.

A :class:`GroupError` carries Kafka's error by its name (the KIP's "Errors" section); the front
door turns it into a response, and nothing is written. A :class:`ReplayError` is what keeps a
broker from loading a partition: a record that the state cannot take.
"""

from __future__ import annotations

from kip848_spark.errors import Kip848Error


class GroupError(Exception):
    """A request refused with one of Kafka's error codes, by name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ReplayError(Kip848Error):
    """A record that a broker of this release could not load: its partition would stay offline."""

    exit_code = 1
