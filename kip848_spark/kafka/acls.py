"""What Kafka does not let a client do, in a sentence that names the ACL to grant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kip848_spark.errors import SourceError

SPARK_GROUPS = "spark-kafka-"
"""What the names of the groups begin with that Spark's Kafka source makes for itself."""


@dataclass(frozen=True)
class KafkaClient:
    """Who asks, and where. ``user``: the name by which a SASL client logs in, if it has one."""

    bootstrap: str
    user: str | None = None

    @classmethod
    def of(cls, bootstrap: str, settings: Mapping[str, str]) -> KafkaClient:
        """By the ``settings`` of a client, in librdkafka's names."""
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
        """The error for a client that the cluster does not let in."""
        who = f" User:{self.user}" if self.user else ""
        return SourceError(
            f"The Kafka cluster at {self.bootstrap} refuses the client{who}: {reason}.",
            "Check security.protocol, the SASL mechanism and the credentials.",
        )
