"""A cluster with SASL and ACLs: what the README grants is enough, and what is missing is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from kip848_spark.checks.live_comparison import INVISIBLE, NOT_ALLOWED
from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.local.broker import Broker
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.opening import open_lake

pytestmark = pytest.mark.slow

USER, PASSWORD = "nightly", "open-sesame"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
ADMIN = SASL | {"sasl.username": "admin", "sasl.password": "admin"}
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="admin" user_admin="admin" user_{USER}="{PASSWORD}";'
)
SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": LOGIN,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}


def acl(
    operation: str, kind: str, name: str, pattern: str = "LITERAL", principal: str = USER
) -> AclBinding:
    return AclBinding(
        ResourceType[kind],
        name,
        ResourcePatternType[pattern],
        f"User:{principal}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


README = {
    "READ on the topic": acl("READ", "TOPIC", OFFSETS_TOPIC),
    "DESCRIBE on topics": acl("DESCRIBE", "TOPIC", "*"),
    "DESCRIBE on groups": acl("DESCRIBE", "GROUP", "*"),
}
"""The ACLs that the README lists."""
SPARKS_OWN = acl("DESCRIBE", "GROUP", "spark-kafka-", "PREFIXED")


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    """A broker that lets nobody in without a password, and nobody do what no ACL allows."""
    with Broker("4.3.1", settings=SECURED, client=ADMIN) as broker:
        admin = AdminClient(ADMIN | {"bootstrap.servers": broker.bootstrap})
        for topic in admin.create_topics([NewTopic("orders", 2, 1)]).values():
            topic.result(30)
        for group in ("shipping", "billing"):
            consumer = Consumer(ADMIN | {"bootstrap.servers": broker.bootstrap, "group.id": group})
            consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
            consumer.close()
        yield broker


@pytest.fixture
def grant(secured: Broker) -> Iterator[AdminClient]:
    """An admin client; all ACLs are taken away at the end."""
    admin = AdminClient(ADMIN | {"bootstrap.servers": secured.bootstrap})
    yield admin
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    for taken in admin.delete_acls([every]).values():
        taken.result(30)


def granted(admin: AdminClient, *without: str) -> None:
    for one in admin.create_acls([a for name, a in README.items() if name not in without]).values():
        one.result(30)


def source(broker: Broker, password: str = PASSWORD) -> KafkaSource:
    os.environ["KIP848_TEST_PASSWORD"] = password
    written = SASL | {"sasl.username": USER, "sasl.password": "${KIP848_TEST_PASSWORD}"}
    return KafkaSource(broker.bootstrap, OFFSETS_TOPIC, ClientSettings(written))


def test_what_the_readme_grants_is_enough(
    secured: Broker, grant: AdminClient, spark: SparkSession, tmp_path: Path
) -> None:
    granted(grant)
    lake = open_lake(spark, str(tmp_path / "lake"))
    outcome = run_ingest(source(secured), lake, then_replay=True, then_audit=True)
    assert outcome.live is not None
    assert outcome.live.differences == []
    assert outcome.live.compared["groups"] == 2
    assert outcome.live.compared["offsets"] == 2
    assert not outcome.live.not_compared
    assert [row["topic"] for row in lake.rows("topics")] == ["orders"]
    # Without DESCRIBE_CONFIGS the brokers' settings are not known, and the night goes on. Their
    # features need no permission, and no SASL.
    assert [one.group_version for one in source(secured).cluster.features()] == [1]
    assert {row["group_id"] for row in lake.rows("readiness")} == {"shipping", "billing"}


@pytest.mark.parametrize(
    ("missing", "sentence", "command"),
    [
        (
            ["READ on the topic"],
            f"User:{USER} lacks the ACL READ on the topic {OFFSETS_TOPIC}",
            f"--allow-principal User:{USER} --operation READ --topic {OFFSETS_TOPIC}",
        ),
        (
            ["READ on the topic", "DESCRIBE on topics"],
            f"User:{USER} lacks the ACL DESCRIBE on the topic {OFFSETS_TOPIC}",
            f"--operation DESCRIBE --topic {OFFSETS_TOPIC}",
        ),
        (
            ["DESCRIBE on groups"],
            f"User:{USER} lacks the ACL DESCRIBE on groups beginning with spark-kafka-",
            "--operation DESCRIBE --group spark-kafka- --resource-pattern-type prefixed",
        ),
    ],
    ids=["read-topic", "describe-topic", "describe-group"],
)
def test_a_missing_acl_is_named(
    missing: list[str],
    sentence: str,
    command: str,
    secured: Broker,
    grant: AdminClient,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    granted(grant, *missing)
    with pytest.raises(SourceError) as refused:
        run_ingest(source(secured), open_lake(spark, str(tmp_path / "lake")), then_replay=True)
    assert sentence in refused.value.message
    assert secured.bootstrap in refused.value.message
    assert command in (refused.value.hint or "")
    assert PASSWORD not in f"{refused.value.message}{refused.value.hint}"


@pytest.mark.parametrize(
    ("missing", "instead", "why"),
    [
        ("DESCRIBE on groups", SPARKS_OWN, NOT_ALLOWED),
        ("DESCRIBE on topics", None, INVISIBLE),
    ],
)
def test_what_may_not_be_asked_is_not_judged(
    missing: str,
    instead: AclBinding | None,
    why: str,
    secured: Broker,
    grant: AdminClient,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    granted(grant, missing)
    if instead is not None:
        for one in grant.create_acls([instead]).values():
            one.result(30)
    lake = open_lake(spark, str(tmp_path / "lake"))
    live = run_ingest(source(secured), lake, then_replay=True, then_audit=True).live
    assert live is not None
    assert live.differences == []
    assert live.not_compared == {why: 2}
    assert "ACL DESCRIBE" in why


def test_a_wrong_password(
    secured: Broker, grant: AdminClient, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match=f"refuses the client User:{USER}") as refused:
        run_ingest(source(secured, "wrong"), open_lake(spark, str(tmp_path / "lake")))
    assert "credentials" in (refused.value.hint or "")
