"""Client settings for both Kafka clients in use: Spark's (Java) and the admin client (librdkafka).

The settings have librdkafka's names, which need no Java truststore, and are translated for Java.
A name with the prefix ``java.`` or ``librdkafka.`` is passed to that client only, without the
prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

from kip848_spark.config.references import ReferringSettings
from kip848_spark.errors import UsageError

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class ClientSettings(ReferringSettings):
    """Settings of a Kafka client."""

    KIND = "Kafka"

    def librdkafka(self) -> dict[str, str]:
        """For confluent-kafka. Raises UsageError if a variable is not set."""
        return {
            name.removeprefix("librdkafka."): value
            for name, value in self.resolved().items()
            if not name.startswith("java.")
        }

    def java(self) -> dict[str, str]:
        """For Spark's Kafka source. Raises UsageError as `librdkafka` does."""
        settings = {
            name: value
            for name, value in self.resolved().items()
            if not name.startswith(("java.", "librdkafka."))
        }
        java: dict[str, str] = {}
        mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms")
        if wait := settings.pop("fetch.wait.max.ms", None):
            java["fetch.max.wait.ms"] = wait
        user = settings.pop("sasl.username", None)
        password = settings.pop("sasl.password", None)
        settings.pop("sasl.mechanisms", None)
        if mechanism:
            java["sasl.mechanism"] = mechanism
        if user is not None and mechanism in _LOGIN_MODULES:
            java["sasl.jaas.config"] = (
                f'{_LOGIN_MODULES[mechanism]} required username="{_quoted(user)}" '
                f'password="{_quoted(password or "")}";'
            )
        if authority := settings.pop("ssl.ca.location", None):
            java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
        java |= _key_store(settings)
        if settings.pop("enable.ssl.certificate.verification", "true") == "false":
            raise UsageError(
                "Java has no equivalent of the setting enable.ssl.certificate.verification=false.",
                "Set ssl.ca.location, or use the prefixes librdkafka. and java. for each client.",
            )
        own = {
            name.removeprefix("java."): value
            for name, value in self.resolved().items()
            if name.startswith("java.")
        }
        return settings | java | own


def _key_store(settings: dict[str, str]) -> dict[str, str]:
    """Java's settings of the client's certificate, whose settings for librdkafka are taken out of
    ``settings``. Java reads the certificate and its key from one PEM file."""
    certificate = settings.pop("ssl.certificate.location", None)
    key = settings.pop("ssl.key.location", None)
    password = settings.pop("ssl.key.password", None)
    if certificate is None and key is None:
        return {}
    if certificate != key:
        raise UsageError(
            "Spark's client reads the certificate and its key from one file, but "
            "ssl.certificate.location and ssl.key.location differ.",
            "Put both into one PEM file, and name it in both settings.",
        )
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate)}
    return store if password is None else store | {"ssl.key.password": password}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
