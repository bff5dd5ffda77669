"""What `saved_audit` saves."""

from __future__ import annotations

from typing import ClassVar


class Stateful:
    """An object that holds a part of the state of an audit: its attributes ``STATE``. The others
    belong to the operation at hand, or are the same in every audit of the group."""

    STATE: ClassVar[tuple[str, ...]] = ()
