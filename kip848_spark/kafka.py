"""Client settings for both Kafka clients in use: Spark's (Java) and the admin client (librdkafka).

They are written once, by librdkafka's names, which need no truststore file of Java's own; what
Java calls otherwise is translated. A name with the prefix ``java.`` or ``librdkafka.`` goes to
that client only, as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kip848_spark.errors import UsageError

_SECRET = re.compile(r"password|secret|jaas|\.pem$|token|api\.key", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_MASK = "********"
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class ClientSettings:
    """Settings of a Kafka client, as written: secrets are references to the environment,
    ``${NAME}``, and stay so until a client is made."""

    written: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.written.items():
            if _SECRET.search(name) and not _REFERENCE.fullmatch(value):
                raise UsageError(
                    f"The Kafka setting {name} is a secret and must not be written out.",
                    f"Put it into an environment variable and write {name}=${{VARIABLE}}.",
                )

    def librdkafka(self) -> dict[str, str]:
        """For confluent-kafka. Raises UsageError if a variable is not set."""
        return {
            name.removeprefix("librdkafka."): value
            for name, value in self._resolved().items()
            if not name.startswith("java.")
        }

    def java(self) -> dict[str, str]:
        """For Spark's Kafka source. Raises UsageError as `librdkafka` does."""
        settings = {
            name: value
            for name, value in self._resolved().items()
            if not name.startswith(("java.", "librdkafka."))
        }
        java: dict[str, str] = {}
        mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms")
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
        if settings.pop("enable.ssl.certificate.verification", "true") == "false":
            raise UsageError(
                "The Kafka setting enable.ssl.certificate.verification=false has no Java form.",
                "Name the authority in ssl.ca.location, or set librdkafka.… and java.… apart.",
            )
        own = {
            name.removeprefix("java."): value
            for name, value in self._resolved().items()
            if name.startswith("java.")
        }
        return settings | java | own

    def masked(self) -> dict[str, str]:
        """As written, secrets masked: what `config show` prints."""
        return {n: _MASK if _SECRET.search(n) else v for n, v in sorted(self.written.items())}

    def _resolved(self) -> dict[str, str]:
        return {name: _from_environment(name, value) for name, value in self.written.items()}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _from_environment(name: str, value: str) -> str:
    def lookup(match: re.Match[str]) -> str:
        found = os.environ.get(match.group(1))
        if found is None:
            raise UsageError(
                f"The Kafka setting {name} refers to the environment variable "
                f"{match.group(1)}, which is not set.",
                f"export {match.group(1)}=…",
            )
        return found

    return _REFERENCE.sub(lookup, value)
