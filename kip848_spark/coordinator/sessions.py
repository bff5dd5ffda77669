"""Session and rebalance timeouts of members of consumer groups.

KIP-848 "Heartbeat & Session" and "Rebalance Timeout"; docs/kafka-facts.md#timers. A session ends if
no heartbeat arrives within the session timeout. A rebalance timer runs while a member must revoke
partitions, and fences the member only if its epoch has not changed since.
"""

from __future__ import annotations

from collections.abc import Callable

from kip848_spark.coordinator.config import SESSION
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.member_timers import rebalance_key, session_key
from kip848_spark.coordinator.membership import fence
from kip848_spark.coordinator.shard import Shard


def keep_session(shard: Shard, group: ConsumerGroup, member: Member) -> None:
    """Start or extend a member's session: with the group's timeout, or a classic member's own."""
    timeout = shard.config.for_group(group.group_id, SESSION)
    if member.classic is not None:
        timeout = member.classic.session_timeout
    schedule_fencing(shard, session_key(group.group_id, member.member_id), group, member, timeout)


def begin_session(shard: Shard, group: ConsumerGroup, member: Member) -> None:
    """Start the session of a member that was loaded from the log: with the group's timeout, also
    for a classic member, whose own timeout counts from its next heartbeat on.
    """
    timeout = shard.config.for_group(group.group_id, SESSION)
    schedule_fencing(shard, session_key(group.group_id, member.member_id), group, member, timeout)


def await_revocation(shard: Shard, group: ConsumerGroup, member: Member) -> None:
    """Fence the member if it does not revoke within its rebalance timeout."""
    epoch = member.epoch
    schedule_fencing(
        shard,
        rebalance_key(group.group_id, member.member_id),
        group,
        member,
        member.rebalance_timeout,
        still=lambda now: now.epoch == epoch,
    )


def schedule_fencing(
    shard: Shard,
    key: str,
    group: ConsumerGroup,
    member: Member,
    delay: int,
    *,
    still: Callable[[Member], bool] = lambda _: True,
) -> None:
    """Fence a member after ``delay`` ms unless the timer is cancelled or ``still``
    returns False.
    """
    group_id, member_id = group.group_id, member.member_id

    def expire() -> None:
        current = shard.groups.get(group_id)
        if not isinstance(current, ConsumerGroup) or member_id not in current.members:
            return
        if still(current.members[member_id]):
            fence(shard, current, [current.members[member_id]])

    shard.schedule(key, delay, expire)
