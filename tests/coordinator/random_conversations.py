"""Generated conversations: random members doing random things, the same on both sides."""

from __future__ import annotations

import random

from tests.coordinator.conversation import ClassicSide, ConsumerSide, Conversation, Talk


def consumers(talk: Talk, seed: int, steps: int = 40) -> Conversation:
    """Members of the new protocol, static and dynamic, with topics that change under them."""
    rng = random.Random(seed)
    sizes = {name: rng.choice((1, 2, 3, 6, 9, 24)) for name in ("t1", "t2", "t3")}
    for name in sorted(sizes)[: rng.randint(1, 3)]:
        talk.topic(name, sizes[name])
    assignors = rng.choice(([None], [None, "range", "uniform"], ["range"]))
    members = [
        talk.consumer(
            f"{name}{rng.randint(0, 999)}",
            *rng.sample(sorted(sizes), rng.randint(1, 2)) if rng.random() < 0.4 else ("t1", "t2"),
            instance=f"i-{name}" if rng.random() < 0.35 else None,
            assignor=rng.choice(assignors),
        )
        for name in "ABCDEF"[: rng.randint(2, 6)]
    ]
    for _ in range(steps):
        _act(talk, rng, rng.choice(members), sizes)
    for _ in range(4):
        for member in members:
            if member.epoch > 0:
                member.ack()
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])
    yield 0
    for member in members:
        if rng.random() < 0.5 and member.epoch > 0:
            member.leave()


def _act(  # noqa: PLR0912 - a branch a deed
    talk: Talk, rng: random.Random, member: ConsumerSide, sizes: dict[str, int]
) -> None:
    if member.epoch <= 0:
        if member.instance is not None and rng.random() < 0.6:
            member.member_id = f"{member.name}-{rng.randint(0, 99)}"
        if member.join()["errorCode"] not in ("NONE", "UNRELEASED_INSTANCE_ID"):
            member.epoch = 0
        return
    what = rng.random()
    if what < 0.35:
        member.ack()
    elif what < 0.55:
        member.beat()
    elif what < 0.62:
        member.subscribe(*rng.sample(sorted(sizes), rng.randint(0 if rng.random() < 0.2 else 1, 3)))
    elif what < 0.68:
        member.leave()
        member.epoch = 0
    elif what < 0.74:
        member.leave(-2)
        member.epoch = 0
    elif what < 0.78:
        member.beat(memberEpoch=member.epoch + rng.choice((-1, 1, -2)))
    elif what < 0.81:
        member.join()
    elif what < 0.85:
        member.beat(serverAssignor=rng.choice(("range", "uniform", "other")))
    elif what < 0.88:
        member.beat(rackId="r", rebalanceTimeoutMs=rng.choice((10_000, 20_000)))
    elif what < 0.92:
        name = rng.choice(sorted(sizes))
        member.commit(name, 0, rng.randint(0, 99), generationIdOrMemberEpoch=member.epoch)
    elif what < 0.94:
        old = member.epoch - 1
        member.commit(rng.choice(sorted(sizes)), 0, 5, generationIdOrMemberEpoch=old)
    elif what < 0.97:
        name = rng.choice(sorted(sizes))
        if name in talk.topics and talk.topics[name] in talk.duel.topic_ids:
            if rng.random() < 0.4:
                talk.delete_topic(name)
            else:
                sizes[name] += 1
                talk.topic(name, sizes[name])
        else:
            talk.topic(name, sizes[name])
    else:
        talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])


def patterns(talk: Talk, seed: int, steps: int = 30) -> Conversation:
    """Members that subscribe by regular expressions, some by names as well."""
    rng = random.Random(seed)
    names = ["a1", "a2", "b1", "b2", "c1"]
    topics = names[: rng.randint(2, 4)]
    for name in topics:
        talk.topic(name, rng.choice((1, 2, 4)))
    expressions = [f"{talk.name}-{end}" for end in ("a.*", "[ab]1", "b.*", "(a|b)2", "c1?", ".*")]
    members = [
        talk.consumer(
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
            talk.topic(names[len(topics)], 2)
            yield 10.5  # for so long the topics are not matched anew
        member = rng.choice(members)
        what = rng.random()
        if member.epoch <= 0:
            member.join()
        elif what < 0.5:
            member.ack()
        elif what < 0.7:
            member.beat(subscribedTopicRegex=rng.choice([*expressions, ""]))
        elif what < 0.8:
            member.subscribe(*rng.sample(topics, rng.randint(0, 2)))
        else:
            member.leave(-2 if member.instance is not None and what < 0.9 else -1)
            member.epoch = 0
        yield 0.15


def restarts(talk: Talk, seed: int, steps: int = 60) -> Conversation:
    """Static members that go for a while and come back, mostly under a new id."""
    rng = random.Random(seed)
    for name in ("t1", "t2"):
        talk.topic(name, rng.choice((2, 3, 6)))
    members = [
        talk.consumer(name, *rng.choice((["t1"], ["t1", "t2"])), instance=f"i-{name}")
        for name in "ABCD"[: rng.randint(2, 4)]
    ]
    for _ in range(steps):
        member = rng.choice(members)
        if member.epoch > 0:
            if rng.random() < 0.6:
                member.ack()
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


def migrations(talk: Talk, seed: int, steps: int = 25) -> Conversation:
    """Classic and new members of one group, in and out, up and down."""
    rng = random.Random(seed)
    talk.topic("t1", rng.choice((2, 4, 7)))
    classic = [talk.classic(f"c{i}", "t1") for i in range(rng.randint(1, 3))]
    modern = [talk.consumer(f"n{i}", "t1") for i in range(rng.randint(1, 2))]
    lead = classic[0]
    if lead.join() is None:
        yield 0.1
        lead.joined(lead.join())
    if lead.generation > 0:
        lead.sync({lead.member_id: {"t1": [0, 1]}})
        lead.owned = [(talk.topic_name("t1"), (0, 1))]
    for _ in range(steps):
        if rng.random() < 0.5:
            member = rng.choice(modern)
            if member.epoch <= 0:
                member.join()
            elif rng.random() < 0.7:
                member.ack()
            else:
                member.leave()
                member.epoch = 0
        else:
            yield from _classic_act(rng, rng.choice(classic))
    talk.ask("x", "ListGroups", statesFilter=["nothing"], typesFilter=[])


def _classic_act(rng: random.Random, member: ClassicSide) -> Conversation:
    what = rng.random()
    if not member.member_id or what < 0.45:
        member.owned = []
        if member.join() is None:
            yield 0.15
        elif member.generation > 0:
            member.sync()
    elif what < 0.7:
        member.beat()
    elif what < 0.9:
        member.sync()
    else:
        member.leave()
        member.member_id, member.generation = "", -1
        yield 0.05
