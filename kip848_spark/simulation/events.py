"""What happens to groups: deployments, crashes, changes of mind, migrations."""

from __future__ import annotations

from collections.abc import Callable

from kip848_spark.simulation.client import Client
from kip848_spark.simulation.group import MOST_CLIENTS, GroupLife

SPACING = 20_000
"""Between the restarts of a rolling deployment."""


def _some(group: GroupLife) -> Client | None:
    up = group.up()
    return group.life.rng.choice(up) if up else None


def bounce(group: GroupLife) -> None:
    """One process is restarted."""
    client = _some(group)
    if client is not None:
        _restart(group, client, group.life.rng.randrange(1_000, 15_000))


def _restart(group: GroupLife, client: Client, down: int) -> None:
    client.stop(for_good=False)
    group.life.at(group.life.now + down, lambda: _again(group, client))


def _again(group: GroupLife, client: Client) -> None:
    if not client.running and client in group.clients:
        client.start()


def rolling(group: GroupLife) -> None:
    """Every process is restarted, one after the other."""
    for i, client in enumerate(group.up()):
        life, down = group.life, group.life.rng.randrange(1_000, 8_000)

        def turn(client: Client = client, down: int = down) -> None:
            if client.running:
                _restart(group, client, down)

        life.at(life.now + i * SPACING + 2, turn)
    _busy(group, len(group.up()) * SPACING)


def crash(group: GroupLife) -> None:
    """One process dies; it is started again soon, or after its session is over."""
    client = _some(group)
    if client is not None:
        client.crash()
        down = group.life.rng.choice((2_000, 8_000, 60_000))
        group.life.at(group.life.now + down, lambda: _again(group, client))


def cut_off(group: GroupLife) -> None:
    """The network to one process is down for a while."""
    client = _some(group)
    if client is not None and not client.cut_off:
        client.cut(group.life.rng.choice((4_000, 20_000, 80_000)))


def scale_up(group: GroupLife) -> None:
    """One process more."""
    if len(group.clients) < MOST_CLIENTS and group.plan.kind != "simple":
        group.new_client().start()


def scale_down(group: GroupLife) -> None:
    """One process less."""
    client = _some(group)
    if client is not None and len(group.up()) > 1:
        client.stop()
        group.remove(client)


def slow(group: GroupLife) -> None:
    """The next time one process has to give partitions up, it takes too long."""
    client = _some(group)
    if client is not None:
        client.slow = True
        scale_up(group)


def subscribe(group: GroupLife) -> None:
    """The application, or one process of it, asks for other topics."""
    life = group.life
    client = _some(group)
    if client is None or group.plan.kind == "simple":
        return
    known = sorted(life.known_topics)
    topics = tuple(life.rng.sample(known, min(len(known), life.rng.choice((1, 2, 3)))))
    if life.rng.random() < 0.5:
        group.odd[client.number] = topics
        return
    group.topics, group.regex = topics, None
    group.odd.clear()


def regex(group: GroupLife) -> None:
    """The application asks by a regular expression, or not any more."""
    if group.classic or group.plan.kind == "simple":
        return
    if any(client.classic for client in group.clients):
        return
    if group.regex is None:
        word = group.life.rng.choice(group.topics).split(".", maxsplit=1)[0]
        group.regex = group.life.rng.choice((f"{word}.*", f"({word}|prices).*", "no-such-.*"))
    else:
        group.regex = None


def assignor(group: GroupLife) -> None:
    """The application asks for another assignor."""
    group.assignor = group.life.rng.choice(("range", "uniform"))


def stop(group: GroupLife) -> None:
    """All processes end; after a while they are started again."""
    life = group.life
    clients = group.up()
    for client in clients:
        client.stop()
    down = life.rng.randrange(30_000, 90_000)
    for i, client in enumerate(clients):
        life.at(life.now + down + i * 700, lambda client=client: _again(group, client))  # type: ignore[misc]
    _busy(group, down + 30_000)


def delete(group: GroupLife) -> None:
    """All processes end, the group is deleted, and begins anew."""
    life = group.life
    stop(group)
    life.at(life.now + 20_000, lambda: life.admin("DeleteGroups", group, {
        "groupsNames": [group.plan.group_id]
    }))  # fmt: skip


def reset(group: GroupLife) -> None:
    """All processes end, the offsets are set back, and the group goes on from there."""
    life = group.life
    rows = {row for client in group.clients for row in client.rows}
    stop(group)
    if group.plan.kind == "simple":
        return

    def back() -> None:
        topics = []
        for name, number, _ in sorted(rows, key=lambda row: row[:2]):
            place = life.places.number((group.plan.group_id, name, number))
            to = max(0, life.places.offset(place, life.now) - life.rng.randrange(5_000))
            answer = {"partitionIndex": number, "committedOffset": to, "committedMetadata": ""}
            topics.append({"name": name, "partitions": [answer]})
            life.tell_group(group)
            life.places.rewind(place, life.now, to)
        life.admin("OffsetCommit", group, {
            "groupId": group.plan.group_id, "generationIdOrMemberEpoch": -1, "memberId": "",
            "topics": topics,
        })  # fmt: skip

    life.at(life.now + 20_000, back)


def forget(group: GroupLife) -> None:
    """An administrator deletes the offsets of a topic; refused while it is subscribed to."""
    life = group.life
    names = sorted(life.known_topics)
    name = life.rng.choice([*names, *group.topics])
    life.admin("OffsetDelete", group, {
        "groupId": group.plan.group_id,
        "topics": [{"name": name, "partitions": [{"partitionIndex": n} for n in range(6)]}],
    })  # fmt: skip


def migrate(group: GroupLife) -> None:
    """Each process is replaced by one of the other protocol, one after the other."""
    life = group.life
    if group.plan.kind == "simple" or group.regex is not None:
        return
    to_classic = not group.classic
    if to_classic and group.plan.kind == "transactional":
        return
    group.classic = to_classic
    for i, client in enumerate(group.up()):

        def turn(client: Client = client) -> None:
            if client not in group.clients:
                return
            if client.running:
                client.stop(for_good=life.rng.random() < 0.5)
            group.remove(client)
            new = group.new_client(classic=to_classic)
            new.instance_id = client.instance_id
            life.at(life.now + life.rng.randrange(1_000, 6_000), lambda: _again(group, new))

        life.at(life.now + i * SPACING + 2, turn)
    _busy(group, len(group.up()) * SPACING + 20_000)


def _busy(group: GroupLife, milliseconds: int) -> None:
    group.busy_until = group.life.now + milliseconds


DEEDS: dict[str, Callable[[GroupLife], None]] = {
    deed.__name__: deed
    for deed in (
        assignor, bounce, crash, cut_off, delete, forget, migrate, regex, reset, rolling,
        scale_down, scale_up, slow, stop, subscribe,
    )
}  # fmt: skip
