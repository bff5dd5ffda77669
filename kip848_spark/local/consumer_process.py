"""A real consumer in a process of its own, driven through its standard input and output.

    python -m kip848_spark.local.consumer_process SETTINGS_JSON

The process reads one command a line, a JSON object with the key ``do``, and answers each with one
line. Between commands it polls, as a consumer must. When its input ends for any reason, it exits at
once without leaving the group. ``ConsumerProcess`` is the other side of the pipes.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kip848_spark.errors import SourceError

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

OffsetToCommit = tuple[str, int, int, str]
"""A commit: topic, partition, offset, metadata."""

_POLL = 0.05
_ANSWER_TIMEOUT = 60.0
_COMMIT_TIMEOUT = 10.0
_MOVING = {"STALE_MEMBER_EPOCH", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"}
"""Errors of a commit when the group has rebalanced and the consumer does not know it yet."""


class ConsumerProcess:
    """A running consumer. The constructor starts it, and each method waits for its answer."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str] = (),
        *,
        protocol: str = "consumer",
        assignor: str | None = None,
        instance_id: str | None = None,
        client_id: str | None = None,
        rack: str | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.group = group
        self.name = client_id or instance_id or "member"
        settings: dict[str, str] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": "1000",
        }
        optional = {
            "group.instance.id": instance_id,
            "client.id": client_id,
            "client.rack": rack,
        }
        if protocol == "consumer":
            optional["group.remote.assignor"] = assignor
        else:
            optional["partition.assignment.strategy"] = assignor or "range"
            settings |= {"session.timeout.ms": "45000", "heartbeat.interval.ms": "500"}
        settings |= {key: value for key, value in optional.items() if value is not None}
        settings |= config or {}
        self._buffer = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # only the parent handles a terminal's Ctrl-C
        )
        if topics:
            self.subscribe(topics)

    @property
    def pid(self) -> int:
        """The process id of the consumer."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribes to topics; a name that starts with ``^`` is a regular expression."""
        self._ask("subscribe", topics=list(topics))

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Assigns partitions manually, without joining the group."""
        self._ask("assign", partitions=list(partitions))

    def assignment(self) -> list[tuple[str, int]]:
        """The partitions that the consumer currently owns."""
        return [(topic, partition) for topic, partition in self._ask("assignment")]

    def wait_for_partitions(self) -> list[tuple[str, int]]:
        """The partitions that the consumer owns, once it owns any. The broker knows of an
        assignment a little before the consumer does."""
        deadline = time.monotonic() + _COMMIT_TIMEOUT
        while not (partitions := self.assignment()) and time.monotonic() < deadline:
            time.sleep(_POLL)
        return partitions

    def member_id(self) -> str:
        """The consumer's id in its group."""
        return str(self._ask("member_id"))

    def pause(self) -> None:
        """Stops fetching. The consumer stays in the group."""
        self._ask("pause")

    def stall(self) -> None:
        """Stops polling, as a hanging application does: the consumer still heartbeats but revokes
        nothing."""
        self._ask("stall")

    def resume(self) -> None:
        """Polls again after `stall`."""
        self._ask("resume")

    def commit(self, offsets: Iterable[OffsetToCommit]) -> None:
        """Commits these offsets and waits for the broker's answer."""
        self._ask("commit", offsets=list(offsets))

    def transact(
        self, transactional_id: str, offsets: Iterable[OffsetToCommit], *, commit: bool
    ) -> None:
        """Sends offsets within a transaction and commits or aborts it."""
        self._ask("transact", id=transactional_id, offsets=list(offsets), commit=commit)

    def close(self) -> None:
        """Leaves the group (a static member leaves temporarily) and ends the process."""
        if self.alive:
            self._ask("close")
        self._end()

    def kill(self) -> None:
        """Ends the process with SIGKILL, so that it does not leave the group."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, command: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        try:
            line = json.dumps({"do": command, **arguments})
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
            answer = json.loads(self._line())
        except (OSError, EOFError, ValueError) as cause:
            raise SourceError(
                f"The consumer {self.name} of group {self.group} ended unexpectedly: {cause}."
            ) from cause
        if "error" in answer:
            raise SourceError(
                f"The consumer {self.name} of group {self.group} can't perform {command}: "
                f"{answer['error']}."
            )
        return answer["ok"]

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + _ANSWER_TIMEOUT
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], deadline - time.monotonic())
            if not ready:
                raise TimeoutError(f"no answer in {_ANSWER_TIMEOUT:.0f} s")
            some = os.read(descriptor, 65536)
            if not some:
                raise EOFError("its output ended")
            self._buffer += some
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


class _Consumer:
    """The consumer in the process, with a method for each command."""

    def __init__(self, settings: dict[str, str]) -> None:
        from confluent_kafka import Consumer

        from kip848_spark.local.transactions import Transactions

        log = logging.getLogger("kip848_spark.librdkafka")
        log.addHandler(logging.NullHandler())
        self.consumer = Consumer(settings, logger=log)
        self.transactions = Transactions(settings["bootstrap.servers"], {"log_level": "0"})
        self.polls = True
        self.closed = False

    def subscribe(self, topics: list[str]) -> None:
        # With a callback, a revocation waits for the next poll; without one, it happens at once.
        self.consumer.subscribe(topics, on_revoke=lambda *_: None)

    def assign(self, partitions: list[tuple[str, int]]) -> None:
        from confluent_kafka import TopicPartition

        self.consumer.assign([TopicPartition(*one) for one in partitions])

    def assignment(self) -> list[tuple[str, int]]:
        return sorted((one.topic, one.partition) for one in self.consumer.assignment())

    def member_id(self) -> str:
        return str(self.consumer.memberid())

    def pause(self) -> None:
        self.consumer.pause(self.consumer.assignment())

    def stall(self) -> None:
        self.polls = False

    def resume(self) -> None:
        self.polls = True

    def commit(self, offsets: list[OffsetToCommit]) -> None:
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + _COMMIT_TIMEOUT
        while True:
            try:
                done = self.consumer.commit(offsets=_partitions(offsets), asynchronous=False)
            except KafkaException as cause:
                if cause.args[0].name() not in _MOVING or time.monotonic() > deadline:
                    raise
                self.consumer.poll(_POLL)
                continue
            wrong = [one for one in done or [] if one.error is not None]
            if wrong:
                raise RuntimeError(f"{wrong[0].topic}: {wrong[0].error}")
            return

    def transact(self, id: str, offsets: list[OffsetToCommit], commit: bool) -> None:
        self.transactions.send_offsets(id, self.consumer, _partitions(offsets), commit)

    def close(self) -> None:
        self.consumer.close()
        self.closed = True


def _partitions(offsets: list[OffsetToCommit]) -> list[TopicPartition]:
    """For the client library, which appends a zero byte to any metadata, even an empty text."""
    from confluent_kafka import TopicPartition

    return [
        TopicPartition(topic, partition, offset, **_metadata(note))
        for topic, partition, offset, note in offsets
    ]


def _metadata(note: str) -> dict[str, Any]:
    return {"metadata": note} if note else {}


def _read(commands: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    os._exit(0)  # the parent has ended or closed the pipe: exit without leaving the group


def main(arguments: list[str]) -> int:
    """Polls and executes commands until the command to close."""
    member = _Consumer(json.loads(arguments[0]))
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(commands,), daemon=True).start()
    parent = os.getppid()
    while not member.closed:
        if member.polls:
            member.consumer.poll(_POLL)
        else:
            time.sleep(_POLL)
        if os.getppid() != parent:
            os._exit(0)
        while not member.closed and not commands.empty():
            command = commands.get()
            print(json.dumps(_execute(member, command)), flush=True)
    return 0


def _execute(member: _Consumer, command: dict[str, Any]) -> dict[str, Any]:
    action: Callable[..., Any] = getattr(member, command.pop("do"))
    try:
        return {"ok": action(**command)}
    except Exception as cause:
        return {"error": str(cause)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
