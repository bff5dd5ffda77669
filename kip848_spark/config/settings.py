"""Settings: the defaults, overridden by a TOML file, overridden by the command line.

The file is named by ``--config`` or the variable KIP848_CONFIG; otherwise it is ``kip848.toml`` in
the working folder, if that exists. ``conf/defaults.toml`` lists every setting.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.config.references import ReferringSettings
from kip848_spark.config.storage import StorageSettings
from kip848_spark.errors import UsageError, near
from kip848_spark.runtime.resources import resource

ENVIRONMENT = "KIP848_CONFIG"
WORKING_FILE = "kip848.toml"
_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@|^kafka:[^@\s]*:[^@\s]*@")
"""A URI with a password, or a source with one."""


def _as_text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


Text = Annotated[str, BeforeValidator(_as_text)]
"""A text. TOML's ``true`` and ``false`` are converted to text."""


@dataclass(frozen=True)
class SparkSettings(ReferringSettings):
    """The section ``[spark]``."""

    KIND = "Spark"


class Settings(BaseModel):
    """All settings. Unknown names are refused, because a misspelt one would have no effect."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str | None = Field(
        None, description="The source of the records: kafka:HOST:PORT, parquet:PATH or delta:PATH."
    )
    lake: str | None = Field(
        None, description="The lake: a folder, or a URI that Spark can write to."
    )
    topic: str = Field("__consumer_offsets", description="The topic to read.")
    dialect: str = Field(
        "shipped",
        description="The record layouts: shipped (Kafka 4.0 and later), kip (the KIP and Kafka "
        "3.7's early access), kip-draft, or auto, which detects them from the records.",
    )
    keep_commits_raw: bool = Field(
        False,
        description="Also keep the raw bytes of offset commits. Those of control records are "
        "always kept.",
    )
    kafka: dict[str, str] = Field(
        default_factory=dict,
        description="Kafka client settings by librdkafka's names. Secrets must be references to "
        "environment variables. A name that begins with java. or librdkafka. is for that client "
        "only.",
    )
    spark: dict[str, str] = Field(
        default_factory=dict,
        description="Spark settings of a local session. On a cluster, spark-submit sets them. "
        "Secrets must be references to environment variables.",
    )
    storage: dict[str, Text] = Field(
        default_factory=dict,
        description="The object store of the lake, for Spark and for delta-rs, by delta-rs' names. "
        "Secrets must be references to environment variables.",
    )

    def client(self) -> ClientSettings:
        """The Kafka client settings. Raises UsageError if a secret is in plain text."""
        return ClientSettings(self.kafka)

    def stored(self) -> StorageSettings:
        """The object store's settings. Raises UsageError if a secret is in plain text or a name is
        unknown."""
        return StorageSettings(self.storage)

    def session(self) -> dict[str, str]:
        """The settings of a local Spark session. Raises UsageError if a secret is in plain text or
        a variable is not set."""
        return SparkSettings(self.spark).resolved()

    def shown(self) -> dict[str, Any]:
        """The settings as a dictionary, with secrets masked. Raises UsageError if a secret is in
        plain text."""
        masked = {
            "kafka": self.client().masked(),
            "spark": SparkSettings(self.spark).masked(),
            "storage": self.stored().masked(),
        }
        return self.model_dump() | masked


def meanings(model: type[BaseModel] = Settings, section: str = "") -> dict[str, str]:
    """The meaning of every setting by its name, such as ``topic`` or ``section.name``."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        found[section + name] = field.description or ""
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= meanings(field.annotation, f"{section}{name}.")
    return found


def load(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    kafka_options: Sequence[str] = (),
) -> Settings:
    """Loads the settings. ``overrides`` come from the command line (None: not given), as do the
    ``kafka_options``, in the form ``name=value``. Raises UsageError."""
    merged = _read(resource("conf/defaults.toml"))
    file = _file(path)
    if file is not None:
        merged = _merge(merged, _read(file))
    merged = _merge(merged, {k: v for k, v in (overrides or {}).items() if v is not None})
    if isinstance(merged.get("kafka"), Mapping):
        merged = _merge(merged, {"kafka": dict(_option(text) for text in kafka_options)})
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as cause:
        first = cause.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UsageError(
                f"There is no setting {where} ({file or 'on the command line'}).",
                near(where, meanings(), "`kip848 config show` prints all settings."),
            ) from None
        raise UsageError(
            f"The setting {where} is wrong: {first['msg'].lower()}"
            f" ({file or 'on the command line'}).",
            "`kip848 config show` prints all settings.",
        ) from None
    for name in ("lake", "source"):
        if _PASSWORD.search(getattr(settings, name) or ""):
            raise UsageError(
                f"The setting {name} has a password in its URI.",
                "Put credentials into the section [storage] or [kafka], as references to "
                "environment variables.",
            )
    return settings


def _file(path: Path | None) -> Path | None:
    named = path or (Path(os.environ[ENVIRONMENT]) if os.environ.get(ENVIRONMENT) else None)
    if named is not None:
        if not named.exists():
            raise UsageError(
                f"The settings file {named} does not exist.", f"Check --config and {ENVIRONMENT}."
            )
        if named.is_dir():
            raise UsageError(
                f"The settings file {named} is a folder.", f"Check --config and {ENVIRONMENT}."
            )
        return named
    here = Path(WORKING_FILE)
    return here if here.is_file() else None


def _read(path: Traversable) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise UsageError(f"The settings file {path} can't be read: {cause}.") from None


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        old = merged.get(name)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[name] = {**old, **value} if both else value  # type: ignore[dict-item]
    return merged


def _option(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"{text!r} is not a Kafka setting.", "Write --kafka-option name=value.")
    return name.strip(), value.strip()
