"""A consumer of the new protocol: it heartbeats, and does what the answers say.

KIP-848 "Consumer": what an assignment takes away is committed and revoked first, which takes the
application a while; then the client says what it owns. Fenced, it drops everything and joins anew.
"""

from __future__ import annotations

from kip848_spark.coordinator.records import Json
from kip848_spark.simulation.client import BACKOFF, Client, Owned

HEARTBEAT = 5_000
SLOW = 15_000
"""A slow application revokes so much later than its rebalance timeout."""
_LOST = ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND")


class Consumer(Client):
    """One member of the new protocol."""

    def enter(self) -> None:
        self.member_id = self.life.new_uuid()
        self.first_tick = self.life.now + self.life.rng.randrange(self.group.plan.commit_interval)
        self._join()

    def _join(self) -> None:
        self.epoch = 0
        self.wanted: Owned | None = None
        self.busy = False
        self.said_all = False
        self.set_owned({})
        self.settle()
        self._beat(full=True)

    def _request(self, *, full: bool, owned: bool) -> Json:
        request: Json = {
            "groupId": self.group.plan.group_id,
            "memberId": self.member_id,
            "memberEpoch": self.epoch,
            "instanceId": self.instance_id,
        }
        if full:
            group = self.group
            self.said = self._subscription()
            request |= {
                "rebalanceTimeoutMs": group.plan.rebalance_timeout,
                "subscribedTopicNames": None if group.regex else sorted(group.topics_for(self)),
                "serverAssignor": group.assignor,
                "rackId": f"rack-{self.number % 3}" if group.plan.number % 4 == 0 else None,
            }
            if group.regex is not None:
                request["subscribedTopicRegex"] = group.regex
        if full or owned:
            rows = self.owned.items()
            request["topicPartitions"] = [
                {"topicId": topic, "partitions": list(numbers)} for topic, numbers in rows
            ]
        return request

    def _beat(self, *, full: bool = False, owned: bool = False) -> None:
        """Heartbeat now. What waits for a later one is off: there is one at a time."""
        self.turn()
        self.said_all = full or self.said_all
        request = self._request(full=full, owned=owned)
        self.send("ConsumerGroupHeartbeat", request, self._answered, 1)

    def _tick(self) -> None:
        """The regular heartbeat; one that changes nothing is not sent the long way."""
        life = self.life
        if self.said != self._subscription():
            self._beat(full=True)
            return
        if self.cut_off or life.is_lost():
            self._beat()
            return
        epoch = self.epoch
        request = self._request(full=False, owned=False)
        if life.only_keeps_session(request, self):
            self.after(HEARTBEAT, self._tick)
            return
        quiet = life.beat(request, self)
        same = quiet["errorCode"] == "NONE" and quiet["memberEpoch"] == epoch
        if same and quiet["assignment"] is None:
            self.after(HEARTBEAT, self._tick)
            return
        turn = self._turn

        def heard() -> None:
            if self._turn == turn and self.running:
                self._answered(None if self.cut_off else quiet)

        life.at(life.now + life.delay(), heard)

    def _answered(self, answer: Json | None) -> None:
        if answer is None:
            self.after(BACKOFF, lambda: self._beat(full=True))
        elif answer["errorCode"] == "NONE":
            self._told(answer)
        elif answer["errorCode"] in _LOST:
            self.after(BACKOFF, self._rejoin)
        else:  # UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION and the like
            self.group.refused(self, answer["errorCode"])
            self.after(2_000, self._rejoin)

    def _rejoin(self) -> None:
        self.set_owned({})
        self._join()

    def _told(self, answer: Json) -> None:
        if answer["memberEpoch"] != self.epoch:
            self.tell(self.life.now)
            self.epoch = answer["memberEpoch"]
        if answer["assignment"] is not None:
            self.wanted = {
                row["topicId"]: tuple(sorted(row["partitions"]))
                for row in answer["assignment"]["topicPartitions"]
                if row["partitions"]
            }
        self.settle()
        if self.wanted is not None and self.wanted != self.owned and not self.busy:
            self._reconcile()
        elif not self.said_all:
            self._beat(full=True)
            return
        self.after(HEARTBEAT, self._tick)

    # Taking over what is wanted

    def _reconcile(self) -> None:
        """Revoke what is not wanted any more; heartbeats go on meanwhile."""
        self.busy = True
        wanted = self.wanted or {}
        lost = any(
            not set(numbers) <= set(wanted.get(topic, ())) for topic, numbers in self.owned.items()
        )
        delay = 2
        if lost:
            self.commit(lambda _: None)
            delay = self.life.rng.randrange(10, 1_500)
            if self.slow:
                self.slow = False
                delay = self.group.plan.rebalance_timeout + SLOW
        life, epoch, member_id = self.life, self.epoch, self.member_id

        def revoked() -> None:
            alive = self.running and self.busy and self.member_id == member_id
            if alive and self.epoch >= epoch > 0:
                self._revoked()

        life.at(life.now + delay, revoked)

    def _revoked(self) -> None:
        self.busy = False
        self.set_owned(self.wanted or {})
        self.settle()
        self._beat(owned=True)

    # The end

    def goodbye(self, *, for_good: bool) -> tuple[str, int, Json] | None:
        if self.epoch <= 0:
            return None
        leaves_for_a_while = self.instance_id is not None and not for_good
        epoch = -2 if leaves_for_a_while else -1
        request = self._request(full=False, owned=False) | {"memberEpoch": epoch}
        return "ConsumerGroupHeartbeat", 1, request

    def _subscription(self) -> tuple[object, ...]:
        """What the application asks for: the next heartbeat says all of it if it changed."""
        group = self.group
        return group.regex, group.assignor, group.topics_for(self)
