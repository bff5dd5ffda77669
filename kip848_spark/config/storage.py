"""Settings of an object store for Spark and delta-rs, which both read and write a lake there.

The settings have delta-rs' names in lower case and are translated for Hadoop. A name with the
prefix ``delta.`` or ``hadoop.`` is passed to that library only, without the prefix.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kip848_spark.config.references import ReferringSettings
from kip848_spark.errors import LakeError, UsageError

_DELTA, _HADOOP = "delta.", "hadoop."
_TRANSLATED = {
    "aws_access_key_id": "fs.s3a.access.key",
    "aws_secret_access_key": "fs.s3a.secret.key",
    "aws_session_token": "fs.s3a.session.token",
    "aws_region": "fs.s3a.endpoint.region",
    "aws_endpoint_url": "fs.s3a.endpoint",
}
_ALLOW_HTTP, _VIRTUAL = "aws_allow_http", "aws_virtual_hosted_style_request"
_CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
NAMES = (*_TRANSLATED, _ALLOW_HTTP, _VIRTUAL)
"""The settings for both libraries."""
_URL = re.compile(r"https?://[^/\s]", re.IGNORECASE)


@dataclass(frozen=True)
class StorageSettings(ReferringSettings):
    """The section ``[storage]``. The AWS_* environment variables set what it does not. Raises
    UsageError if a name is unknown, because it would have no effect."""

    KIND = "storage"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.written:
            if name not in NAMES and not name.startswith((_DELTA, _HADOOP)):
                raise UsageError(
                    f"There is no storage setting {name}.",
                    f"Choose one of {', '.join(NAMES)}. Or write delta.{name} for delta-rs "
                    "only, or hadoop.fs.… for Spark only.",
                )

    def delta(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """``storage_options`` for delta-rs. Raises UsageError if a variable is not set, or if the
        endpoint is not a URL."""
        return self._common(environment) | self._own(_DELTA)

    def hadoop(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Hadoop's settings, for Spark. Raises UsageError as `delta` does."""
        common = self._common(environment)
        found = {_TRANSLATED[n]: value for n, value in common.items() if n in _TRANSLATED}
        if _ALLOW_HTTP in common:
            found["fs.s3a.connection.ssl.enabled"] = _negated(common[_ALLOW_HTTP])
        # delta-rs puts the bucket into the path unless it is asked not to. So must Spark, where
        # the host is named: few servers but Amazon's have a host name a bucket.
        if _VIRTUAL in common or "aws_endpoint_url" in common:
            found["fs.s3a.path.style.access"] = _negated(common.get(_VIRTUAL, "false"))
        return found | self._own(_HADOOP)

    def _common(self, environment: Mapping[str, str]) -> dict[str, str]:
        defaults = {n: environment[n.upper()] for n in NAMES if environment.get(n.upper())}
        if "AWS_DEFAULT_REGION" in environment:
            defaults.setdefault("aws_region", environment["AWS_DEFAULT_REGION"])
        if any(name in self.written for name in _CREDENTIALS):  # they belong together
            defaults = {n: value for n, value in defaults.items() if n not in _CREDENTIALS}
        found = defaults | {n: value for n, value in self.resolved().items() if n in NAMES}
        endpoint = found.get("aws_endpoint_url")
        if endpoint is not None and not _URL.match(endpoint):  # delta-rs would panic
            raise UsageError(
                f"The endpoint of the object store is not a URL: {endpoint}.",
                "Write https:// or http:// before the host in aws_endpoint_url: "
                "https://minio:9000.",
            )
        return found

    def _own(self, prefix: str) -> dict[str, str]:
        return {
            name.removeprefix(prefix): value
            for name, value in self.resolved().items()
            if name.startswith(prefix)
        }


def _negated(value: str) -> str:
    return "false" if value.lower() in ("true", "1", "yes") else "true"


_AGAIN = "Then start the run again: it continues after the last run that has finished."
_FAULTS = (
    (
        r"URL scheme is not allowed",
        "its endpoint is an http:// address, which has to be allowed",
        'Write https:// in aws_endpoint_url, or set aws_allow_http = "true" in [storage].',
    ),
    (
        r"ExpiredToken|TokenRefreshRequired|RequestExpired|token (?:has |is )?expired",
        "the credentials of the object store have expired",
        f"Renew the credentials, for as long as a run takes. {_AGAIN}",
    ),
    (
        r"\bSlowDown\b|503 Service Unavailable|Status Code: 503|\b503 SlowDown|"
        r"ServiceUnavailable|429 Too Many Requests|RequestLimitExceeded|status: 503",
        "the object store refuses requests because there are too many (503)",
        f"Wait until the store is less busy. {_AGAIN}",
    ),
    (
        r"[Ee]rror sending request|NoHttpResponseException|Unable to execute HTTP request",
        "the object store does not answer",
        f"Check the endpoint and the network. {_AGAIN}",
    ),
    # delta-rs looks for a machine's role, at an address of its own, where it is given no key.
    (
        r"No AWS Credentials|Unable to load (?:AWS )?credentials|169\.254\.169\.254",
        "the object store wants credentials, and there are none",
        "Set aws_access_key_id and aws_secret_access_key in [storage], or the variables AWS_*.",
    ),
    (
        r"NoSuchBucket|UnknownStoreException|[Bb]ucket does not exist|ContainerNotFound|"
        r"container does not exist",
        "there is no such bucket or container",
        "Create it, or name another.",
    ),
    (
        r"InvalidAccessKeyId|SignatureDoesNotMatch|failed to authenticate the request",
        "the object store does not know the credentials",
        "Check the keys in [storage], or those that Hadoop has.",
    ),
    (
        r"\bAccessDenied|AccessDeniedException: s3a|403 Forbidden|Status Code: 403",
        "the object store denies the access",
        "Check what the credentials in [storage] allow: list, read, write and delete.",
    ),
    (
        r"\b50[024] (?:Internal Server Error|Bad Gateway|Gateway Time-?out)|Status Code: 50[024]\b|"
        r"\bInternalError\b",
        "the object store has an error of its own (500)",
        f"The files of the lake are not the reason. Wait until the store works. {_AGAIN}",
    ),
    (
        r"Generic (?:S3|GCS|MicrosoftAzure) error",
        "the object store answers with an error",
        f"The files of the lake are not the reason. Check the endpoint and the region. {_AGAIN}",
    ),
)


def store_fault(text: str, what: str) -> LakeError | None:
    """The error for ``what`` is on an object store ("the lake s3a://…"), out of the ``text`` that
    Hadoop or delta-rs says; None if it is not about the store."""
    for pattern, meaning, todo in _FAULTS:
        if re.search(pattern, text):
            return LakeError(f"{what[0].upper()}{what[1:]} can't be reached: {meaning}.", todo)
    return None
