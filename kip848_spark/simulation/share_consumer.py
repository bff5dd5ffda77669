"""A consumer of a share group (KIP-932): it heartbeats and reads whatever it is assigned.

Several members may read a partition at the same time, so nothing is revoked, and a member follows
its assignment at once. Its progress is kept by the share coordinator: it commits no offsets.
"""

from __future__ import annotations

from kip848_spark.coordinator.records import Json
from kip848_spark.simulation.client import BACKOFF, SimulatedClient
from kip848_spark.simulation.consumer import FENCED, HEARTBEAT_INTERVAL

_VERSION = 1


class ShareConsumer(SimulatedClient):
    """One member of a share group."""

    def join_group(self) -> None:
        self.member_id = self.partition.new_uuid()
        self._join()

    def _join(self) -> None:
        self.epoch = 0
        self._sent: tuple[str, ...] | None = None
        self._heartbeat(full=True)

    def _heartbeat(self, *, full: bool = False) -> None:
        """Send a heartbeat now, with all fields or with those that changed."""
        self.cancel_pending()
        group, request = self.group, self._request(self.epoch)
        topics = group.topics_for(self.number)
        if full or topics != self._sent:
            request["subscribedTopicNames"] = sorted(topics)
        if full and group.plan.number % 4 == 0:
            request["rackId"] = f"rack-{self.number % 3}"
        self._sent = topics
        self.send("ShareGroupHeartbeat", request, self._on_answer, _VERSION)

    def _request(self, epoch: int) -> Json:
        return {
            "groupId": self.group.plan.group_id,
            "memberId": self.member_id,
            "memberEpoch": epoch,
            "rackId": None,
            "subscribedTopicNames": None,
        }

    def _on_answer(self, answer: Json | None) -> None:
        if answer is None:
            self.after(BACKOFF, lambda: self._heartbeat(full=True))
        elif answer["errorCode"] == "NONE":
            self.epoch = answer["memberEpoch"]
            self.after(HEARTBEAT_INTERVAL, self._heartbeat)
        else:
            self.after(BACKOFF if answer["errorCode"] in FENCED else 2_000, self._join)

    def leave_request(self, *, for_good: bool) -> tuple[str, int, Json] | None:
        if self.epoch <= 0:
            return None
        return "ShareGroupHeartbeat", _VERSION, self._request(-1)
