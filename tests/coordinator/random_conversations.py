"""Generated conversations: random requests of random members, the same for both sides."""

from __future__ import annotations

import random

from tests.coordinator.conversation import ClassicClient, ConsumerClient, Conversation, Pauses


def consumers(conversation: Conversation, seed: int, steps: int = 40) -> Pauses:
    """Members of the new protocol, static and dynamic, with topics that change."""
    rng = random.Random(seed)
    sizes = {name: rng.choice((1, 2, 3, 6, 9, 24)) for name in ("t1", "t2", "t3")}
    for name in sorted(sizes)[: rng.randint(1, 3)]:
        conversation.topic(name, sizes[name])
    assignors = rng.choice(([None], [None, "range", "uniform"], ["range"]))
    members = [
        conversation.consumer(
            f"{name}{rng.randint(0, 999)}",
            *rng.sample(sorted(sizes), rng.randint(1, 2)) if rng.random() < 0.4 else ("t1", "t2"),
            instance=f"i-{name}" if rng.random() < 0.35 else None,
            assignor=rng.choice(assignors),
        )
        for name in "ABCDEF"[: rng.randint(2, 6)]
    ]
    for _ in range(steps):
        _random_request(conversation, rng, rng.choice(members), sizes)
    for _ in range(4):
        for member in members:
            if member.epoch > 0:
                member.acknowledge()
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])
    yield 0
    for member in members:
        if rng.random() < 0.5 and member.epoch > 0:
            member.leave()


def _random_request(  # noqa: PLR0912 - one branch per request
    conversation: Conversation, rng: random.Random, member: ConsumerClient, sizes: dict[str, int]
) -> None:
    if member.epoch <= 0:
        if member.instance is not None and rng.random() < 0.6:
            member.member_id = f"{member.name}-{rng.randint(0, 99)}"
        if member.join()["errorCode"] not in ("NONE", "UNRELEASED_INSTANCE_ID"):
            member.epoch = 0
        return
    what = rng.random()
    if what < 0.35:
        member.acknowledge()
    elif what < 0.55:
        member.heartbeat()
    elif what < 0.62:
        member.subscribe(*rng.sample(sorted(sizes), rng.randint(0 if rng.random() < 0.2 else 1, 3)))
    elif what < 0.68:
        member.leave()
        member.epoch = 0
    elif what < 0.74:
        member.leave(-2)
        member.epoch = 0
    elif what < 0.78:
        member.heartbeat(memberEpoch=member.epoch + rng.choice((-1, 1, -2)))
    elif what < 0.81:
        member.join()
    elif what < 0.85:
        member.heartbeat(serverAssignor=rng.choice(("range", "uniform", "other")))
    elif what < 0.88:
        member.heartbeat(rackId="r", rebalanceTimeoutMs=rng.choice((10_000, 20_000)))
    elif what < 0.92:
        name = rng.choice(sorted(sizes))
        member.commit(name, 0, rng.randint(0, 99), generationIdOrMemberEpoch=member.epoch)
    elif what < 0.94:
        old = member.epoch - 1
        member.commit(rng.choice(sorted(sizes)), 0, 5, generationIdOrMemberEpoch=old)
    elif what < 0.97:
        name = rng.choice(sorted(sizes))
        if (
            name in conversation.topics
            and conversation.topics[name] in conversation.comparison.topic_ids
        ):
            if rng.random() < 0.4:
                conversation.delete_topic(name)
            else:
                sizes[name] += 1
                conversation.topic(name, sizes[name])
        else:
            conversation.topic(name, sizes[name])
    else:
        conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])


def patterns(conversation: Conversation, seed: int, steps: int = 30) -> Pauses:
    """Members that subscribe by regular expressions, some of them by names as well."""
    rng = random.Random(seed)
    names = ["a1", "a2", "b1", "b2", "c1"]
    topics = names[: rng.randint(2, 4)]
    for name in topics:
        conversation.topic(name, rng.choice((1, 2, 4)))
    expressions = [
        f"{conversation.name}-{end}" for end in ("a.*", "[ab]1", "b.*", "(a|b)2", "c1?", ".*")
    ]
    members = [
        conversation.consumer(
            f"{name}{rng.randint(0, 999)}",
            *rng.sample(topics, rng.choice((0, 0, 1))),
            regex=rng.choice(expressions),
            instance=f"i-{name}" if rng.random() < 0.3 else None,
        )
        for name in "ABCD"[: rng.randint(2, 4)]
    ]
    late = rng.randrange(steps)
    for step in range(steps):
        if step == late:
            conversation.topic(names[len(topics)], 2)
            yield 10.5  # expressions are resolved at most every ten seconds
        member = rng.choice(members)
        what = rng.random()
        if member.epoch <= 0:
            member.join()
        elif what < 0.5:
            member.acknowledge()
        elif what < 0.7:
            member.heartbeat(subscribedTopicRegex=rng.choice([*expressions, ""]))
        elif what < 0.8:
            member.subscribe(*rng.sample(topics, rng.randint(0, 2)))
        else:
            member.leave(-2 if member.instance is not None and what < 0.9 else -1)
            member.epoch = 0
        yield 0.15


def restarts(conversation: Conversation, seed: int, steps: int = 60) -> Pauses:
    """Static members that leave temporarily and return, mostly under a new id."""
    rng = random.Random(seed)
    for name in ("t1", "t2"):
        conversation.topic(name, rng.choice((2, 3, 6)))
    members = [
        conversation.consumer(name, *rng.choice((["t1"], ["t1", "t2"])), instance=f"i-{name}")
        for name in "ABCD"[: rng.randint(2, 4)]
    ]
    for _ in range(steps):
        member = rng.choice(members)
        if member.epoch > 0:
            if rng.random() < 0.6:
                member.acknowledge()
            else:
                member.leave(-2)
                member.epoch = 0
        else:
            if rng.random() < 0.8:
                member.member_id = f"{member.name}-{rng.randint(0, 9999)}"
            if rng.random() < 0.2:
                member.names = rng.choice((["t1"], ["t1", "t2"]))
            member.join()
        yield 0.01


def migrations(conversation: Conversation, seed: int, steps: int = 25) -> Pauses:
    """Classic and new members that join and leave one group, which upgrades and downgrades it."""
    rng = random.Random(seed)
    conversation.topic("t1", rng.choice((2, 4, 7)))
    classic = [conversation.classic(f"c{i}", "t1") for i in range(rng.randint(1, 3))]
    modern = [conversation.consumer(f"n{i}", "t1") for i in range(rng.randint(1, 2))]
    lead = classic[0]
    if lead.join() is None:
        yield 0.1
        lead.joined(lead.join())
    if lead.generation > 0:
        lead.sync({lead.member_id: {"t1": [0, 1]}})
        lead.owned = [(conversation.topic_name("t1"), (0, 1))]
    for _ in range(steps):
        if rng.random() < 0.5:
            member = rng.choice(modern)
            if member.epoch <= 0:
                member.join()
            elif rng.random() < 0.7:
                member.acknowledge()
            else:
                member.leave()
                member.epoch = 0
        else:
            yield from _random_classic_request(rng, rng.choice(classic))
    conversation.send("x", "ListGroups", statesFilter=["nothing"], typesFilter=[])


def _random_classic_request(rng: random.Random, member: ClassicClient) -> Pauses:
    what = rng.random()
    if not member.member_id or what < 0.45:
        member.owned = []
        if member.join() is None:
            yield 0.15
        elif member.generation > 0:
            member.sync()
    elif what < 0.7:
        member.heartbeat()
    elif what < 0.9:
        member.sync()
    else:
        member.leave()
        member.member_id, member.generation = "", -1
        yield 0.05
