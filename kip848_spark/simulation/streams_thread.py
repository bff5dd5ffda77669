"""A thread of a streams application (KIP-1071): one member of a streams group.

It follows the responses to its heartbeats: active tasks that a new assignment lacks are first
committed and closed, which takes some time; then it reports the tasks that it has. Its commits are
those of the partitions that its active tasks read.
"""

from __future__ import annotations

from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.streams_group import NO_TASKS, ROLES, Tasks, task_rows
from kip848_spark.simulation.client import BACKOFF, SimulatedClient
from kip848_spark.simulation.consumer import FENCED, HEARTBEAT_INTERVAL, SLOW_EXTRA
from kip848_spark.simulation.topologies import subtopologies, topics_of

_VERSION = 0


class StreamsThread(SimulatedClient):
    """One member of a streams group."""

    def join_group(self) -> None:
        self.member_id = self.partition.new_uuid()
        self.first_tick = self.partition.now + self.partition.rng.randrange(
            self.group.plan.commit_interval
        )
        self._join()

    def _join(self) -> None:
        self.epoch = 0
        self.tasks = NO_TASKS
        self.target: Tasks | None = None
        self.may_miss_tasks = False
        """An answer was lost. A broker does not repeat the tasks that it may have had."""
        self.reconciling = False
        self.set_owned({})
        self.update_at_rest()
        self._heartbeat(full=True)

    def _topology(self) -> list[Json]:
        group = self.group
        return subtopologies(group.plan.topology, group.plan.group_id, group.topics)

    def _heartbeat(self, *, full: bool = False, owned: bool = False) -> None:
        """Send a heartbeat now: with all fields, or with the tasks that the thread has."""
        self.cancel_pending()
        request = self._request(self.epoch)
        if self.epoch == 0:
            request["topology"] = {"epoch": 0, "subtopologies": self._topology()}
        if full:
            request |= {
                "rebalanceTimeoutMs": self.group.plan.rebalance_timeout,
                "processId": self.group.process_of(self.number),
                "clientTags": [],
                "rackId": f"rack-{self.number % 3}" if self.group.plan.number % 4 == 0 else None,
            }
        if full or owned:
            rows = (task_rows(tasks) for tasks in self.tasks)
            request |= dict(zip(ROLES, rows, strict=True))
        self.send("StreamsGroupHeartbeat", request, self._on_answer, _VERSION)

    def _request(self, epoch: int) -> Json:
        return {
            "groupId": self.group.plan.group_id,
            "memberId": self.member_id,
            "memberEpoch": epoch,
            "endpointInformationEpoch": -1,
            "instanceId": self.instance_id,
            "rackId": None,
            "rebalanceTimeoutMs": -1,
            "topology": None,
            **dict.fromkeys(ROLES),
            "processId": None,
            "userEndpoint": None,
            "clientTags": None,
            "taskOffsets": None,
            "taskEndOffsets": None,
            "shutdownApplication": False,
        }

    def _on_answer(self, answer: Json | None) -> None:
        if answer is None:
            self.may_miss_tasks = True
            self.after(BACKOFF, lambda: self._heartbeat(full=True))
        elif answer["errorCode"] == "NONE":
            self._apply_answer(answer)
        else:
            self.set_owned({})
            self.after(BACKOFF if answer["errorCode"] in FENCED else 2_000, self._join)

    def _apply_answer(self, answer: Json) -> None:
        if answer["memberEpoch"] != self.epoch:
            self.write_commits(self.partition.now)
            self.epoch = answer["memberEpoch"]
        if answer["activeTasks"] is not None:
            self.target = Tasks.of(answer)
            self.may_miss_tasks = False
        self.update_at_rest()
        if self.target is not None and self.target != self.tasks and not self.reconciling:
            self._reconcile()
        self.after(HEARTBEAT_INTERVAL, self._heartbeat)

    def _reconcile(self) -> None:
        """Close the tasks that the target lacks; heartbeats continue meanwhile."""
        self.reconciling = True
        target = self.target or NO_TASKS
        partition, epoch, delay = self.partition, self.epoch, 2
        if not self.tasks.active <= target.active:
            self.commit(lambda _: None)
            delay = partition.rng.randrange(10, 1_500)
            if self.slow:
                self.slow = False
                delay = self.group.plan.rebalance_timeout + SLOW_EXTRA

        def finish() -> None:
            if self.running and self.reconciling and self.epoch >= epoch > 0:
                self._take_over()

        partition.at(partition.now + delay, finish)

    def _take_over(self) -> None:
        self.reconciling = False
        self.tasks = self.target or NO_TASKS
        self.set_owned(self._partitions())
        self.update_at_rest()
        self._heartbeat(owned=True)

    def _partitions(self) -> dict[str, list[int]]:
        """The partitions that the active tasks read, by topic id."""
        topics = self.partition.coordinator.shard.topics
        found: dict[str, list[int]] = {}
        for subtopology in self._topology():
            own = [n for name, n in self.tasks.active if name == subtopology["subtopologyId"]]
            for topic in map(topics.named, topics_of(subtopology)):
                if topic is not None:
                    found[topic.topic_id] = [n for n in own if n < topic.partitions]
        return found

    def leave_request(self, *, for_good: bool) -> tuple[str, int, Json] | None:
        if self.epoch <= 0:
            return None
        leaves_temporarily = self.instance_id is not None and not for_good
        return "StreamsGroupHeartbeat", _VERSION, self._request(-2 if leaves_temporarily else -1)
