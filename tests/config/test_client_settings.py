"""Settings of the Kafka consumers that Spark starts."""

from __future__ import annotations

import pytest

from kip848_spark.config.client_settings import ClientSettings


@pytest.mark.parametrize("name", ["fetch.wait.max.ms", "java.fetch.max.wait.ms"])
def test_the_time_that_a_fetch_waits_has_two_names(name: str) -> None:
    """librdkafka's name had no effect on the consumers that read the topic."""
    assert ClientSettings({name: "250"}).java() == {"fetch.max.wait.ms": "250"}
