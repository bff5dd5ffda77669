"""Translates Hadoop's settings of an object store into storage options of delta-rs."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

Lookup = Callable[[str], str | None]
"""The value of a setting of Hadoop; None if it is not set."""

_S3 = {"aws_region": "endpoint.region"}
_S3_SECRETS = {
    "aws_access_key_id": "access.key",
    "aws_secret_access_key": "secret.key",
    "aws_session_token": "session.token",
}
_AMAZON = ("s3.amazonaws.com", "")
"""Hadoop's default endpoints, which delta-rs finds by the region."""


def options_of_hadoop(uri: str, setting: Lookup, secret: Lookup) -> dict[str, str]:
    """Storage options of delta-rs for the store of ``uri``. ``secret`` looks up what may be in a
    credential provider. Without a key, delta-rs uses the role of the machine, as Hadoop does.

    S3: ``fs.s3a.*``, where a setting of the bucket comes before the general one. Azure: the account
    key. Google: the key file of a service account.
    """
    parts = urlsplit(uri)
    if parts.scheme in ("s3", "s3a"):
        return _s3_options(parts.netloc, setting, secret)
    if parts.scheme in ("abfs", "abfss"):
        host = parts.netloc.rpartition("@")[2]
        key = secret(f"fs.azure.account.key.{host}")
        return {"azure_storage_account_key": key} if key else {}
    if parts.scheme == "gs":
        file = setting("fs.gs.auth.service.account.json.keyfile")
        return {"google_service_account": file} if file else {}
    return {}


def _s3_options(bucket: str, setting: Lookup, secret: Lookup) -> dict[str, str]:
    def found(lookup: Lookup, name: str) -> str | None:
        return lookup(f"fs.s3a.bucket.{bucket}.{name}") or lookup(f"fs.s3a.{name}")

    options = {name: found(setting, hadoop) for name, hadoop in _S3.items()}
    options |= {name: found(secret, hadoop) for name, hadoop in _S3_SECRETS.items()}
    endpoint = found(setting, "endpoint") or ""
    if endpoint not in _AMAZON:
        if "://" not in endpoint:
            plain = found(setting, "connection.ssl.enabled") == "false"
            endpoint = f"{'http' if plain else 'https'}://{endpoint}"
        options["aws_endpoint_url"] = endpoint
        if endpoint.startswith("http://"):
            options["aws_allow_http"] = "true"
    return {name: value for name, value in options.items() if value}
