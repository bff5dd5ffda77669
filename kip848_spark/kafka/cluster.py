"""Reads all that the live comparison needs of a cluster.

Where only librdkafka can ask for groups, it does so in a process of its own, because librdkafka
2.16 may end its process: if the broker returns a classic member whose assignment ends too early,
which any client can send, and if a group's coordinator moves before it returns the committed
offsets. A nightly job must not end with either.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import OFFSETS_TOPIC, Cluster
from kip848_spark.kafka.coordinators import GroupAnswers
from kip848_spark.kafka.group_descriptions import describe_groups
from kip848_spark.kafka.group_offsets import committed_offsets
from kip848_spark.kafka.newer_groups import describe_newer, newer_group_ids
from kip848_spark.kafka.snapshot import NO_COORDINATOR, UNREADABLE, ClusterSnapshot

T = TypeVar("T")

Answers = tuple[dict[str, Any], dict[str, str]]
"""Answers by group, and the reasons of the groups that were refused."""
Question = Literal["describe", "committed"]
"""A method of `Cluster` that returns `Answers`."""

_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
_CRASHED: Mapping[Question, str] = {"describe": UNREADABLE, "committed": NO_COORDINATOR}
"""Why a group is refused for which the client library ends the process."""
_MOST_CRASHES = 100
"""After so many, the groups that are left are refused as well."""


def snapshot(
    bootstrap: str,
    config: Mapping[str, Any] | None = None,
    topic: str = OFFSETS_TOPIC,
    timeout: float = 30.0,
    chosen: Callable[[list[str]], Sequence[str]] = list,
    cluster: Cluster | None = None,
) -> ClusterSnapshot:
    """Reads all that the live comparison needs. ``chosen`` selects the groups to read from the ids
    that the client may see; it may add others. ``cluster`` is a connection to use."""
    if cluster is None:
        cluster = Cluster(bootstrap, config, timeout)
    else:
        cluster.refresh()
    ids = chosen(sorted(newer_group_ids(cluster).union(cluster.group_ids())))
    with ThreadPoolExecutor(2) as pool:
        topics = pool.submit(cluster.topics)
        committed = pool.submit(committed_offsets, cluster, ids)
        described = describe_groups(cluster, ids)
        offsets = _with_child("committed", cluster, committed.result())
        groups = _with_child("describe", cluster, described)
        known = topics.result()
    newer = describe_newer(cluster, [name for name in ids if name in groups.absent])
    return ClusterSnapshot(
        cluster_id=cluster.cluster_id,
        groups=groups.answers | newer.groups,
        offsets=offsets.answers,
        topics=known,
        ends=cluster.ends(topic),  # last: what is newer than an answer is before them
        refused=offsets.refused | groups.refused,
        unasked={**newer.unasked, **newer.refused},
    )


def _with_child(question: Question, cluster: Cluster, found: GroupAnswers[T]) -> GroupAnswers[T]:
    """Adds the answers about the groups ``unasked``, by the client library. Sorts all by name."""
    rest = sorted(found.unasked)
    answers, refused = ask_in_child(
        question, cluster.bootstrap, cluster.config, cluster.timeout, rest
    )
    return GroupAnswers(
        dict(sorted({**found.answers, **answers}.items())),
        found.absent.union(name for name in rest if name not in answers | refused),
        found.refused | refused,
    )


def ask_in_child(
    question: Question,
    bootstrap: str,
    config: Mapping[str, Any],
    timeout: float,
    ids: Sequence[str],
) -> Answers:
    """Asks a `Cluster` about the groups ``ids`` in another process. A group that ends the client
    library is refused; it is found by halving. Raises SourceError if the cluster does not
    answer."""
    answers: dict[str, Any] = {}
    refused: dict[str, str] = {}
    waiting, crashes = [list(ids)] if ids else [], 0
    while waiting:
        some = waiting.pop()
        found = None
        if crashes < _MOST_CRASHES:
            found = _in_child((question, bootstrap, dict(config), timeout, some))
        if found is not None:
            answers |= found[0]
            refused |= found[1]
            continue
        crashes += 1
        if len(some) == 1 or crashes >= _MOST_CRASHES:
            refused |= dict.fromkeys(some, _CRASHED[question])
        else:
            half = len(some) // 2
            waiting += [some[half:], some[:half]]
    return dict(sorted(answers.items())), refused


def _in_child(request: tuple[Question, str, dict[str, Any], float, list[str]]) -> Answers | None:
    """The answer of a new process; None if the client library crashed in it. The request goes
    through a pipe, because settings may be secret."""
    child = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    output, errors = child.communicate(pickle.dumps(request))
    if -child.returncode in _CRASHES:
        return None
    if child.returncode:
        last = (errors.decode(errors="replace").strip().splitlines() or ["no reason"])[-1]
        raise SourceError(f"The cluster can't be asked about its groups: {last}.")
    answers, refused, fault = pickle.loads(output)
    if fault is not None:
        raise SourceError(fault[0], hint=fault[1])
    return answers, refused


def main() -> None:
    """Answers the question that comes on standard input."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    question, bootstrap, config, timeout, ids = pickle.loads(sys.stdin.buffer.read())
    answer: tuple[Any, Any, Any]
    try:
        answer = (*getattr(Cluster(bootstrap, config, timeout), question)(ids), None)
    except SourceError as cause:
        answer = {}, {}, (cause.message, cause.hint)
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    main()
