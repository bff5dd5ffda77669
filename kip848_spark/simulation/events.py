"""Events that happen to groups: deployments, crashes, changed subscriptions, migrations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kip848_spark.simulation.client import SimulatedClient
from kip848_spark.simulation.group import MOST_CLIENTS, SimulatedGroup

STANDBYS = "streams.num.standby.replicas"
SPACING = 20_000
"""Time (ms) between two restarts of a rolling deployment."""


def _pick_client(group: SimulatedGroup) -> SimulatedClient | None:
    up = group.running_clients()
    return group.partition.rng.choice(up) if up else None


def bounce(group: SimulatedGroup) -> None:
    """Restart one process."""
    client = _pick_client(group)
    if client is not None:
        _restart(group, client, group.partition.rng.randrange(1_000, 15_000))


def _restart(group: SimulatedGroup, client: SimulatedClient, down: int) -> None:
    client.stop(for_good=False)
    group.partition.at(group.partition.now + down, lambda: _start_again(group, client))


def _start_again(group: SimulatedGroup, client: SimulatedClient) -> None:
    if not client.running and client in group.clients:
        client.start()


def rolling(group: SimulatedGroup) -> None:
    """Restart every process, one after the other."""
    for i, client in enumerate(group.running_clients()):
        partition, down = group.partition, group.partition.rng.randrange(1_000, 8_000)

        def restart(client: SimulatedClient = client, down: int = down) -> None:
            if client.running:
                _restart(group, client, down)

        partition.at(partition.now + i * SPACING + 2, restart)
    _suspend_events(group, len(group.running_clients()) * SPACING)


def crash(group: SimulatedGroup) -> None:
    """One process dies. It restarts soon, or after its session has ended."""
    client = _pick_client(group)
    if client is not None:
        client.crash()
        down = group.partition.rng.choice((2_000, 8_000, 60_000))
        group.partition.at(group.partition.now + down, lambda: _start_again(group, client))


def cut_off(group: SimulatedGroup) -> None:
    """One process loses its network for a while."""
    client = _pick_client(group)
    if client is not None and not client.cut_off:
        client.cut(group.partition.rng.choice((4_000, 20_000, 80_000)))


def scale_up(group: SimulatedGroup) -> None:
    """Start one more process."""
    if len(group.clients) < MOST_CLIENTS and group.plan.kind != "simple":
        group.new_client().start()


def scale_down(group: SimulatedGroup) -> None:
    """Stop one process for good."""
    client = _pick_client(group)
    if client is not None and len(group.running_clients()) > 1:
        client.stop()
        group.remove(client)


def slow(group: SimulatedGroup) -> None:
    """The next time one process has to revoke partitions, it takes too long."""
    client = _pick_client(group)
    if client is not None:
        client.slow = True
        scale_up(group)


def subscribe(group: SimulatedGroup) -> None:
    """The application, or one process of it, subscribes to other topics."""
    partition = group.partition
    client = _pick_client(group)
    if client is None or group.plan.kind in ("simple", "streams"):
        return
    known = sorted(partition.known_topics)
    topics = tuple(partition.rng.sample(known, min(len(known), partition.rng.choice((1, 2, 3)))))
    if partition.rng.random() < 0.5:
        group.subscription_overrides[client.number] = topics
        return
    group.topics, group.regex = topics, None
    group.subscription_overrides.clear()


def regex(group: SimulatedGroup) -> None:
    """The application subscribes by a regular expression, or stops doing so."""
    if group.classic or group.plan.kind in ("simple", "share", "streams"):
        return
    if any(client.classic for client in group.clients):
        return
    if group.regex is None:
        word = group.partition.rng.choice(group.topics).split(".", maxsplit=1)[0]
        group.regex = group.partition.rng.choice((f"{word}.*", f"({word}|prices).*", "no-such-.*"))
    else:
        group.regex = None


def assignor(group: SimulatedGroup) -> None:
    """The application requests another assignor. An administrator sets another number of standby
    tasks for a streams group.
    """
    if group.plan.kind == "streams":
        standbys = {"name": STANDBYS, "value": str(group.partition.rng.choice((0, 1, 2)))}
        resource = {"resourceType": 32, "resourceName": group.plan.group_id, "configs": [standbys]}
        group.partition.admin("IncrementalAlterConfigs", group, {"resources": [resource]})
        return
    group.assignor = group.partition.rng.choice(group.partition.assignor_names)


def stop(group: SimulatedGroup) -> None:
    """Stop all processes, and start them again after a while."""
    partition = group.partition
    clients = group.running_clients()
    for client in clients:
        client.stop()
    down = partition.rng.randrange(30_000, 90_000)
    for i, client in enumerate(clients):
        partition.at(partition.now + down + i * 700, partial(_start_again, group, client))
    _suspend_events(group, down + 30_000)


def delete(group: SimulatedGroup) -> None:
    """Stop all processes and delete the group; the processes start again later."""
    partition = group.partition
    stop(group)
    partition.at(partition.now + 20_000, lambda: partition.admin("DeleteGroups", group, {
        "groupsNames": [group.plan.group_id]
    }))  # fmt: skip


def reset(group: SimulatedGroup) -> None:
    """Stop all processes and rewind the offsets; the processes continue from there."""
    partition = group.partition
    rows = {row for client in group.clients for row in client.rows}
    stop(group)
    if group.plan.kind in ("simple", "share"):
        return

    def commit_back() -> None:
        topics = []
        for name, number, _ in sorted(rows, key=lambda row: row[:2]):
            key_number = partition.positions.number((group.plan.group_id, name, number))
            to = max(
                0,
                partition.positions.offset(key_number, partition.now)
                - partition.rng.randrange(5_000),
            )
            answer = {"partitionIndex": number, "committedOffset": to, "committedMetadata": ""}
            topics.append({"name": name, "partitions": [answer]})
            group.write_commits(partition.now)
            partition.positions.rewind(key_number, partition.now, to)
        partition.admin("OffsetCommit", group, {
            "groupId": group.plan.group_id, "generationIdOrMemberEpoch": -1, "memberId": "",
            "topics": topics,
        })  # fmt: skip

    partition.at(partition.now + 20_000, commit_back)


def forget(group: SimulatedGroup) -> None:
    """An administrator deletes the offsets of a topic; refused while the group subscribes to it."""
    partition = group.partition
    if group.plan.kind == "share":
        return
    names = sorted(partition.known_topics)
    name = partition.rng.choice([*names, *group.topics])
    partition.admin("OffsetDelete", group, {
        "groupId": group.plan.group_id,
        "topics": [{"name": name, "partitions": [{"partitionIndex": n} for n in range(6)]}],
    })  # fmt: skip


def migrate(group: SimulatedGroup) -> None:
    """Replace each process by one of the other protocol, one after the other."""
    partition = group.partition
    if group.plan.kind in ("simple", "share", "streams") or group.regex is not None:
        return
    to_classic = not group.classic
    if to_classic and group.plan.kind == "transactional":
        return
    group.classic = to_classic
    for i, client in enumerate(group.running_clients()):

        def restart(client: SimulatedClient = client) -> None:
            if client not in group.clients:
                return
            if client.running:
                client.stop(for_good=partition.rng.random() < 0.5)
            group.remove(client)
            new = group.new_client(classic=to_classic)
            new.instance_id = client.instance_id
            partition.at(
                partition.now + partition.rng.randrange(1_000, 6_000),
                lambda: _start_again(group, new),
            )

        partition.at(partition.now + i * SPACING + 2, restart)
    _suspend_events(group, len(group.running_clients()) * SPACING + 20_000)


def _suspend_events(group: SimulatedGroup, milliseconds: int) -> None:
    group.busy_until = group.partition.now + milliseconds


EVENTS: dict[str, Callable[[SimulatedGroup], None]] = {
    event.__name__: event
    for event in (
        assignor, bounce, crash, cut_off, delete, forget, migrate, regex, reset, rolling,
        scale_down, scale_up, slow, stop, subscribe,
    )
}  # fmt: skip
