"""Errors of Kafka's authorization, with the command that grants the missing ACL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kip848_spark.errors import SourceError

SPARK_GROUPS = "spark-kafka-"
"""The prefix of the groups that Spark's Kafka source creates."""


@dataclass(frozen=True)
class KafkaClient:
    """A client of a cluster. ``user`` is the SASL user name, if there is one."""

    bootstrap: str
    user: str | None = None

    @classmethod
    def of(cls, bootstrap: str, settings: Mapping[str, str]) -> KafkaClient:
        """The client with these ``settings``, by librdkafka's names."""
        return cls(bootstrap, settings.get("sasl.username"))

    def denied(self, operation: str, kind: str, name: str) -> SourceError:
        """The error for an ``operation`` (READ, DESCRIBE) on a ``kind`` of resource (topic, group,
        cluster). Spark's own groups are named by their prefix."""
        if kind == "group" and name.startswith(SPARK_GROUPS):
            resource = f"--group {SPARK_GROUPS} --resource-pattern-type prefixed"
            named = f"groups beginning with {SPARK_GROUPS}"
        elif kind == "cluster":
            resource, named = "--cluster", "the cluster"
        else:
            resource, named = f"--{kind} {name}", f"the {kind} {name}"
        principal = f"User:{self.user}" if self.user else "User:NAME"
        who = f"The principal {principal}" if self.user else "The client"
        return SourceError(
            f"{who} lacks the ACL {operation} on {named} of the Kafka cluster at {self.bootstrap}.",
            f"kafka-acls --bootstrap-server {self.bootstrap} --add --allow-principal {principal} "
            f"--operation {operation} {resource}",
        )

    def refused(self, reason: str) -> SourceError:
        """The error for a client that the cluster does not authenticate."""
        who = f" User:{self.user}" if self.user else ""
        return SourceError(
            f"The Kafka cluster at {self.bootstrap} refuses the client{who}: {reason}.",
            "Check security.protocol, the SASL mechanism and the credentials.",
        )
