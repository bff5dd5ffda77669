"""Members of share and streams groups that join by raw requests and then keep still."""

from __future__ import annotations

import time
from typing import Any

from tests.coordinator.wire import Connection

Json = dict[str, Any]
_WAITING = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
NOTHING: Json = {"activeTasks": [], "standbyTasks": [], "warmupTasks": []}
NO_SESSION_ENDS = str(3_600_000)


def settings(version: str) -> dict[str, str]:
    """Of a broker with both kinds of groups, of which no member's session ends."""
    made = {
        "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
        **{
            f"group.{kind}.{name}session.timeout.ms": NO_SESSION_ENDS
            for kind in ("share", "streams")
            for name in ("", "max.")
        },
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.num.standby.replicas": "1",
    }
    if version.startswith("4.1"):
        made |= {"group.share.enable": "true", "unstable.api.versions.enable": "true"}
        made["unstable.feature.versions.enable"] = "true"
        del made["group.streams.initial.rebalance.delay.ms"]
    return made


class NewerMembers:
    """A client that speaks for any number of members."""

    def __init__(self, bootstrap: str) -> None:
        self.connection = Connection(bootstrap, "newer")
        # Creates the topic of the coordinators, and waits for them.
        self.ask("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["any"]})
        self.ask("ShareGroupDescribe", 1, {"groupIds": ["any"]})

    def ask(self, api: str, version: int, request: Json, seconds: float = 60) -> Json:
        """The answer without an error, for which it waits until the coordinator is there."""
        deadline = time.monotonic() + seconds
        while True:
            answer = self.connection.receive(self.connection.send(api, version, request), 30)
            assert answer is not None, f"no answer to {api}"
            (row,) = answer.get("coordinators") or answer.get("groups") or [answer]
            if row["errorCode"] in ("NONE", "GROUP_ID_NOT_FOUND"):
                return answer
            assert row["errorCode"] in _WAITING, answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.2)

    def share(self, group: str, member: str, epoch: int, topics: list[str] | None = None) -> Json:
        """A heartbeat of a share consumer: epoch 0 joins, -1 leaves."""
        request = {"groupId": group, "memberId": member, "memberEpoch": epoch}
        return self.ask("ShareGroupHeartbeat", 1, request | {"subscribedTopicNames": topics})

    def streams(self, group: str, member: str, epoch: int, **more: Any) -> Json:
        """A heartbeat of a streams thread, in a process of its own."""
        request: Json = {
            "groupId": group,
            "memberId": member,
            "memberEpoch": epoch,
            "endpointInformationEpoch": -1,
            **dict.fromkeys(("taskOffsets", "taskEndOffsets", "clientTags", *NOTHING)),
        }
        return self.ask("StreamsGroupHeartbeat", 0, request | more)

    def join_streams(self, group: str, member: str, source: str, changelog: str) -> Json:
        """Joins with a topology of one subtopology with a store."""
        store = {"name": changelog, "partitions": 0, "replicationFactor": 0, "topicConfigs": []}
        subtopology = {
            "subtopologyId": "0",
            "sourceTopics": [source],
            "stateChangelogTopics": [store],
            "sourceTopicRegex": [],
            "repartitionSinkTopics": [],
            "repartitionSourceTopics": [],
            "copartitionGroups": [],
        }
        return self.streams(
            group,
            member,
            0,
            rebalanceTimeoutMs=300_000,
            processId=f"process-{member}",
            clientTags=[],
            topology={"epoch": 0, "subtopologies": [subtopology]},
            **NOTHING,
        )
