"""Errors of requests, and errors while loading a log.

A :class:`GroupError` carries the name of one of Kafka's error codes (KIP-848 "Errors");
:class:`.Coordinator` turns it into a response, and no record is written. A :class:`ReplayError` is
a record that keeps a broker from loading a partition.
"""

from __future__ import annotations

from kip848_spark.errors import Kip848Error


class GroupError(Exception):
    """A request refused with one of Kafka's error codes, given by name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ReplayError(Kip848Error):
    """A record that a broker of this release cannot load; the partition would stay offline."""

    exit_code = 1
