"""The facts about a running cluster that migration readiness depends on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kip848_spark.cli.display import say
from kip848_spark.cli.options import Invocation
from kip848_spark.errors import SourceError, UsageError

ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="The lake's cluster, kafka:HOST:PORT, to ask for its settings and release.",
        metavar="SOURCE",
    ),
]
ReleaseOption = Annotated[
    str | None,
    typer.Option("--release", help="The brokers' Kafka release, such as 4.3.1.", metavar="R"),
]


def cluster_facts(invocation: Invocation, release: str | None) -> dict[str, Any]:
    """What the cluster that is the source answers, and the release that was given. A cluster that
    does not answer is not known, which is said on standard error.

    Raises UsageError for a release that is none."""
    from kip848_spark.insight.readiness_cluster import (
        SETTINGS,
        facts_from_features,
        facts_from_settings,
    )
    from kip848_spark.insight.readiness_versions import parse_version

    facts: dict[str, Any] = {}
    if release is not None:
        try:
            parse_version(release)
        except ValueError as bad:
            raise UsageError(f"{bad}.", "Write it as in --release 4.3.1.") from None
        facts["release"] = release
        _note_newer(release)
    kind, _, bootstrap = (invocation.settings.source or "").partition(":")
    if kind != "kafka":
        return facts
    from kip848_spark.kafka.admin import Cluster

    try:
        cluster = Cluster(bootstrap, invocation.settings.client().librdkafka())
        facts = facts_from_features(cluster.features()) | facts
        return facts | facts_from_settings(cluster.broker_settings(list(SETTINGS)))
    except SourceError as cause:
        unknown = f"The cluster's settings are not known: {cause.message}"
        say(unknown, level="warning", style="yellow")
        return facts


def _note_newer(release: str) -> None:
    """Says so if ``release`` is newer than all that the rules of readiness know."""
    from kip848_spark.insight.readiness_versions import LINES, parse_version

    newest = max(LINES.values())
    if parse_version(release)[:2] > newest[:2]:
        say(
            f"Release {release} is newer than {newest[0]}.{newest[1]}, the newest release that the "
            "rules know.",
            level="warning",
            style="yellow",
        )
