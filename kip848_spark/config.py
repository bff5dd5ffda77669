"""Settings: built-in defaults, then a TOML file, then the command line; later ones win.

The file is the one named by ``--config`` or KIP848_CONFIG, else ``kip848.toml`` in the working
folder if there is one. ``conf/defaults.toml`` shows every setting.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from kip848_spark.errors import UsageError
from kip848_spark.kafka import ClientSettings
from kip848_spark.resources import resource
from kip848_spark.storage import StorageSettings

ENVIRONMENT = "KIP848_CONFIG"
WORKING_FILE = "kip848.toml"


def _as_text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


Text = Annotated[str, BeforeValidator(_as_text)]
"""A text. TOML's ``true`` and ``false`` are taken as such."""


class Settings(BaseModel):
    """Everything that can be set. Unknown names are refused, a misspelt one would do nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str | None = None
    lake: str | None = None
    topic: str = "__consumer_offsets"
    dialect: str = "shipped"
    keep_commits_raw: bool = False
    kafka: dict[str, str] = Field(default_factory=dict)
    spark: dict[str, str] = Field(default_factory=dict)
    storage: dict[str, Text] = Field(
        default_factory=dict,
        description="The object store of a lake, for Spark and delta-rs, by delta-rs' names.",
    )

    def client(self) -> ClientSettings:
        """The Kafka client settings. Raises UsageError if one is a secret written out."""
        return ClientSettings(self.kafka)

    def stored(self) -> StorageSettings:
        """The object store's settings. Raises UsageError as `client` does, and for unknown ones."""
        return StorageSettings(self.storage)

    def shown(self) -> dict[str, Any]:
        """The settings, secrets masked."""
        masked = {"kafka": self.client().masked(), "storage": self.stored().masked()}
        return self.model_dump() | masked


def load(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    kafka_options: Sequence[str] = (),
) -> Settings:
    """The settings in force. ``overrides``: what the command line says (None: nothing);
    ``kafka_options``: as ``name=value``. Raises UsageError."""
    merged = _read(resource("conf/defaults.toml"))
    file = _file(path)
    if file is not None:
        merged = _merge(merged, _read(file))
    merged = _merge(merged, {k: v for k, v in (overrides or {}).items() if v is not None})
    merged = _merge(merged, {"kafka": dict(_option(text) for text in kafka_options)})
    try:
        return Settings.model_validate(merged)
    except ValidationError as cause:
        first = cause.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"The setting {where} is wrong: {first['msg'].lower()}"
            f" ({file or 'on the command line'}).",
            "`kip848 config show` prints the settings there are.",
        ) from None


def _file(path: Path | None) -> Path | None:
    named = path or (Path(os.environ[ENVIRONMENT]) if os.environ.get(ENVIRONMENT) else None)
    if named is not None:
        if not named.is_file():
            raise UsageError(f"There is no settings file {named}.", "Check --config.")
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
