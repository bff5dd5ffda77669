"""Reads all that the live comparison needs of a cluster.

Groups are described in a process of its own: librdkafka 2.16 ends its process if the broker returns
a classic member whose assignment ends too early. Any client can send such bytes, and a nightly job
must not end with them.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import OFFSETS_TOPIC, Cluster
from kip848_spark.kafka.newer_groups import describe_newer, newer_group_ids
from kip848_spark.kafka.snapshot import UNREADABLE, ClusterSnapshot, LiveGroup

DescribedGroups = tuple[dict[str, LiveGroup], dict[str, str]]
"""Groups by id, and the reasons of those that were refused."""

Child = subprocess.Popen[bytes]

_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
_MOST_CRASHES = 100
"""After so many, the groups that are left count as not readable as well."""


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
    with _started_child() as describing:
        if cluster is None:
            cluster = Cluster(bootstrap, config, timeout)
        else:
            cluster.refresh()
        ids = chosen(sorted(newer_group_ids(cluster).union(cluster.group_ids())))
        with ThreadPoolExecutor(2) as pool:
            topics = pool.submit(cluster.topics)
            described = pool.submit(
                describe_groups, bootstrap, config, timeout, ids, first=describing
            )
            offsets, also_refused = cluster.committed(ids)
            groups, refused = described.result()
            known = topics.result()
    newer = describe_newer(cluster, [name for name in ids if name not in groups | refused])
    return ClusterSnapshot(
        cluster_id=cluster.cluster_id,
        groups=groups | newer.groups,
        offsets=offsets,
        topics=known,
        ends=cluster.ends(topic),  # last: what is newer than an answer is before them
        refused={**also_refused, **refused},
        unasked={**newer.unasked, **newer.refused},
    )


def describe_groups(
    bootstrap: str,
    config: Mapping[str, Any] | None,
    timeout: float,
    ids: Sequence[str],
    *,
    first: Child | None = None,
) -> DescribedGroups:
    """As `Cluster.describe`, in another process: ``first``, or one that is started here. A group
    that ends the client library is refused: `UNREADABLE`; it is found by halving. Raises
    SourceError if the cluster does not answer."""
    groups: dict[str, LiveGroup] = {}
    refused: dict[str, str] = {}
    waiting, crashes = [list(ids)] if ids else [], 0
    while waiting:
        some = waiting.pop()
        found = None
        if crashes < _MOST_CRASHES:
            child, first = first or _start_child(), None
            found = _in_child(child, (bootstrap, dict(config or {}), timeout, some))
        if found is not None:
            groups |= found[0]
            refused |= found[1]
            continue
        crashes += 1
        if len(some) == 1 or crashes >= _MOST_CRASHES:
            refused |= dict.fromkeys(some, UNREADABLE)
        else:
            half = len(some) // 2
            waiting += [some[half:], some[:half]]
    return dict(sorted(groups.items())), refused


def _start_child() -> Child:
    """A process that waits for a request. Its start takes longer than its answer."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


@contextmanager
def _started_child() -> Iterator[Child]:
    child = _start_child()
    with child:
        try:
            yield child
        finally:
            child.kill()  # unless it has ended


def _in_child(
    child: Child, request: tuple[str, dict[str, Any], float, list[str]]
) -> DescribedGroups | None:
    """The answer of a new process; None if the client library crashed in it. The request goes
    through a pipe, because settings may be secret."""
    output, errors = child.communicate(pickle.dumps(request))
    if -child.returncode in _CRASHES:
        return None
    if child.returncode:
        last = (errors.decode(errors="replace").strip().splitlines() or ["no reason"])[-1]
        raise SourceError(f"The groups can't be described: {last}.")
    groups, refused, fault = pickle.loads(output)
    if fault is not None:
        raise SourceError(fault[0], hint=fault[1])
    return groups, refused


def main() -> None:
    """Describes the groups that standard input asks for."""
    import confluent_kafka.admin  # noqa: F401 (before the request comes: it takes a while)

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bootstrap, config, timeout, ids = pickle.loads(sys.stdin.buffer.read())
    answer: tuple[Any, Any, Any]
    try:
        answer = (*Cluster(bootstrap, config, timeout).describe(ids), None)
    except SourceError as cause:
        answer = {}, {}, (cause.message, cause.hint)
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    main()
