"""Captures of real share groups that come and go, with topics that grow and are deleted.

python -m tests.capture_shares 4.4.0 tests/data/shares-4.4.0
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kip848_spark.kafka.cluster import snapshot
from kip848_spark.local.broker import Broker
from kip848_spark.simulation.log import SCHEMA
from tests.captures import COMMITTED, read_topic
from tests.coordinator.broker_comparison import BrokerComparison
from tests.coordinator.conversation import run_all
from tests.coordinator.share_conversations import shares
from tests.coordinator.test_share_against_broker import Conversations, generated, scripted, settings


def make(version: str, out_dir: Path, groups: int, *, restart: bool, interval: int) -> None:
    """Hold conversations with a broker, and keep its records. The answers are not compared."""
    out_dir.mkdir(parents=True, exist_ok=True)
    own = settings(version)
    own |= {
        "group.share.session.timeout.ms": "4000",
        "group.share.min.session.timeout.ms": "1000",
        "group.share.heartbeat.interval.ms": "300",
        "group.share.min.heartbeat.interval.ms": "200",
    }
    if version >= "4.3":
        own["group.share.assignment.interval.ms"] = str(interval)
    with Broker(version, settings=own, offsets_partitions=1) as broker:
        _talk(broker, version, scripted() + generated(range(groups)))
        if restart:
            broker.restart()
            more = [
                (f"later{seed}", lambda conversation, s=seed: shares(conversation, s))
                for seed in range(groups, groups + groups // 2)
            ]
            _talk(broker, version, more)
        time.sleep(6)  # sessions that nobody keeps up expire
        output = snapshot(broker.bootstrap)
        ends = {partition: found.end for partition, found in output.ends.items()}
        rows = read_topic(broker.bootstrap, ends, "read_committed")
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    pq.write_table(
        pa.Table.from_pylist(rows, schema=SCHEMA), out_dir / COMMITTED, compression="zstd"
    )


def _talk(broker: Broker, version: str, conversations: Conversations) -> None:
    comparison = BrokerComparison(broker, version)
    comparison.share_states.patience = 0.2
    random.Random(version).shuffle(conversations)
    try:
        run_all(comparison, conversations)
    finally:
        comparison.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("version")
    parser.add_argument("out", type=Path)
    parser.add_argument("--groups", type=int, default=30)
    parser.add_argument("--restart", action="store_true")
    parser.add_argument("--interval", type=int, default=0, help="ms between two targets (4.3)")
    arguments = parser.parse_args()
    make(
        arguments.version,
        arguments.out,
        arguments.groups,
        restart=arguments.restart,
        interval=arguments.interval,
    )
