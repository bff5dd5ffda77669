"""The state that a broker loads from one partition of ``__consumer_offsets``."""

from __future__ import annotations

from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.offset_store import OffsetStore
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.streams_group import StreamsGroup

AnyGroup = ConsumerGroup | ClassicGroup | ShareGroup | StreamsGroup


class PartitionState:
    """Groups by id and committed offsets: everything that replaying a record can change."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = OffsetStore()
        self.now = 0
        """The coordinator's clock, in ms."""
