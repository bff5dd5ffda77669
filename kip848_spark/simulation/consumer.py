"""A consumer of the new protocol: it heartbeats and follows the responses.

KIP-848 "Consumer": partitions that a new assignment lacks are first committed and revoked, which
takes the application some time; then the client reports what it owns. A fenced client drops all
partitions and joins again.
"""

from __future__ import annotations

from kip848_spark.coordinator.records import Json
from kip848_spark.simulation.client import BACKOFF, SimulatedClient
from kip848_spark.simulation.interfaces import OwnedPartitions

HEARTBEAT_INTERVAL = 5_000
SLOW_EXTRA = 15_000
"""How much longer (ms) than its rebalance timeout a slow application takes to revoke partitions."""
FENCED = ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND")
"""Errors after which a client drops what it has and joins again at once."""


class Consumer(SimulatedClient):
    """One member of the new protocol."""

    def join_group(self) -> None:
        self.member_id = self.partition.new_uuid()
        self.first_tick = self.partition.now + self.partition.rng.randrange(
            self.group.plan.commit_interval
        )
        self._join()

    def _join(self) -> None:
        self.epoch = 0
        self.target: OwnedPartitions | None = None
        self.reconciling = False
        self.sent_full = False
        self.set_owned({})
        self.update_at_rest()
        self._heartbeat(full=True)

    def _request(self, *, full: bool, owned: bool) -> Json:
        request: Json = {
            "groupId": self.group.plan.group_id,
            "memberId": self.member_id,
            "memberEpoch": self.epoch,
            "instanceId": self.instance_id,
        }
        if full:
            group = self.group
            self.last_subscription = self._subscription()
            request |= {
                "rebalanceTimeoutMs": group.plan.rebalance_timeout,
                "subscribedTopicNames": None
                if group.regex
                else sorted(group.topics_for(self.number)),
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

    def _heartbeat(self, *, full: bool = False, owned: bool = False) -> None:
        """Send a heartbeat now and cancel the scheduled one: only one is in flight at a time."""
        self.cancel_pending()
        self.sent_full = full or self.sent_full
        request = self._request(full=full, owned=owned)
        self.send("ConsumerGroupHeartbeat", request, self._on_answer, 1)

    def _regular_heartbeat(self) -> None:
        """The regular heartbeat. If it can change nothing, it takes a shortcut past the simulated
        network.
        """
        partition = self.partition
        if self.last_subscription != self._subscription():
            self._heartbeat(full=True)
            return
        if self.cut_off or partition.is_lost():
            self._heartbeat()
            return
        epoch = self.epoch
        request = self._request(full=False, owned=False)
        if partition.only_keeps_session(request, self):
            self.after(HEARTBEAT_INTERVAL, self._regular_heartbeat)
            return
        answer = partition.heartbeat(request, self)
        same = answer["errorCode"] == "NONE" and answer["memberEpoch"] == epoch
        if same and answer["assignment"] is None:
            self.after(HEARTBEAT_INTERVAL, self._regular_heartbeat)
            return
        schedule = self._schedule

        def deliver() -> None:
            if self._schedule == schedule and self.running:
                self._on_answer(None if self.cut_off else answer)

        partition.at(partition.now + partition.delay(), deliver)

    def _on_answer(self, answer: Json | None) -> None:
        if answer is None:
            self.after(BACKOFF, lambda: self._heartbeat(full=True))
        elif answer["errorCode"] == "NONE":
            self._apply_answer(answer)
        elif answer["errorCode"] in FENCED:
            self.after(BACKOFF, self._rejoin)
        else:  # such as UNRELEASED_INSTANCE_ID or INVALID_REGULAR_EXPRESSION
            self.group.on_refused(answer["errorCode"])
            self.after(2_000, self._rejoin)

    def _rejoin(self) -> None:
        self.set_owned({})
        self._join()

    def _apply_answer(self, answer: Json) -> None:
        if answer["memberEpoch"] != self.epoch:
            self.write_commits(self.partition.now)
            self.epoch = answer["memberEpoch"]
        if answer["assignment"] is not None:
            self.target = {
                row["topicId"]: tuple(sorted(row["partitions"]))
                for row in answer["assignment"]["topicPartitions"]
                if row["partitions"]
            }
        self.update_at_rest()
        if self.target is not None and self.target != self.owned and not self.reconciling:
            self._reconcile()
        elif not self.sent_full:
            self._heartbeat(full=True)
            return
        self.after(HEARTBEAT_INTERVAL, self._regular_heartbeat)

    # Reconciliation

    def _reconcile(self) -> None:
        """Revoke what the target lacks; heartbeats continue meanwhile."""
        self.reconciling = True
        target = self.target or {}
        lost = any(
            not set(numbers) <= set(target.get(topic, ())) for topic, numbers in self.owned.items()
        )
        delay = 2
        if lost:
            self.commit(lambda _: None)
            delay = self.partition.rng.randrange(10, 1_500)
            if self.slow:
                self.slow = False
                delay = self.group.plan.rebalance_timeout + SLOW_EXTRA
        partition, epoch, member_id = self.partition, self.epoch, self.member_id

        def finish() -> None:
            alive = self.running and self.reconciling and self.member_id == member_id
            if alive and self.epoch >= epoch > 0:
                self._take_over()

        partition.at(partition.now + delay, finish)

    def _take_over(self) -> None:
        self.reconciling = False
        self.set_owned(self.target or {})
        self.update_at_rest()
        self._heartbeat(owned=True)

    # Leaving

    def leave_request(self, *, for_good: bool) -> tuple[str, int, Json] | None:
        if self.epoch <= 0:
            return None
        leaves_temporarily = self.instance_id is not None and not for_good
        epoch = -2 if leaves_temporarily else -1
        request = self._request(full=False, owned=False) | {"memberEpoch": epoch}
        return "ConsumerGroupHeartbeat", 1, request

    def _subscription(self) -> tuple[object, ...]:
        """What the application subscribes to: if it changed, the next heartbeat reports
        all of it.
        """
        group = self.group
        return group.regex, group.assignor, group.topics_for(self.number)
