"""Settings whose secrets are references to environment variables, ``${NAME}``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from kip848_spark.errors import UsageError

_SECRET = re.compile(
    r"password|passphrase|secret|jaas|\.pem$|token(?!\.endpoint)|api\.key|account[._]key"
    r"|storage_access_key|keystore\.key$",
    re.IGNORECASE,
)
"""The names of settings that are secrets."""
_WITH_SECRET = re.compile(
    r"(password|passphrase|secret)\s*=\s*[^\s$]|://[^/@\s]*:[^/@\s$]+@", re.IGNORECASE
)
"""A value that has a secret in it: ``-Dx.password=…``, or a URL with a password."""
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_MASK = "********"


def is_secret(name: str) -> bool:
    """Whether a setting of this name is a secret."""
    return _SECRET.search(name) is not None


@dataclass(frozen=True)
class ReferringSettings:
    """Settings as written. References are resolved when a client is created. Raises UsageError if a
    secret is written in plain text."""

    KIND: ClassVar[str]
    """The name of these settings in messages."""

    written: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.written.items():
            if is_secret(name) and not _REFERENCE.fullmatch(value):
                raise UsageError(
                    f"The {self.KIND} setting {name} is a secret and must not be in plain text.",
                    f"Put it into an environment variable and write {name}=${{VARIABLE}}.",
                )
            if _WITH_SECRET.search(value):
                raise UsageError(
                    f"The {self.KIND} setting {name} has a secret in plain text in its value.",
                    "Put the secret into an environment variable and write ${VARIABLE} for it.",
                )

    def masked(self) -> dict[str, str]:
        """The settings as written, with secrets masked, for `config show`."""
        return {n: _MASK if is_secret(n) else v for n, v in sorted(self.written.items())}

    def resolved(self) -> dict[str, str]:
        """The settings with their references resolved. Raises UsageError if a variable is not
        set."""
        return {name: self._value(name, value) for name, value in self.written.items()}

    def _value(self, name: str, value: str) -> str:
        def lookup(match: re.Match[str]) -> str:
            found = os.environ.get(match.group(1))
            if found is None:
                raise UsageError(
                    f"The {self.KIND} setting {name} refers to the environment variable "
                    f"{match.group(1)}, which is not set.",
                    f"Set it: export {match.group(1)}=…",
                )
            return found

        return _REFERENCE.sub(lookup, value)
