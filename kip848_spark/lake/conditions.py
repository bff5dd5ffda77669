"""Conditions on the rows of a table, which both delta-rs and Spark can apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

Operator = Literal["equals", "above", "among", "known"]


@dataclass(frozen=True)
class Condition:
    """True for the rows in which ``column`` equals ``value``, is above it, is among its values (a
    sequence of texts), or is known (not null). A null fulfils no condition."""

    column: str
    operator: Operator
    value: Any = None

    @property
    def expression(self) -> pc.Expression:
        """The same for Arrow datasets."""
        field = pc.field(self.column)
        if self.operator == "known":
            return field.is_valid()
        if self.operator == "among":
            return field.isin(pa.array(sorted(self.value), pa.string()))
        return field == self.value if self.operator == "equals" else field > self.value


class TableReader(Protocol):
    """Tables of a lake at one point in time, whoever reads them."""

    def has(self, table: str) -> bool:
        """Whether the lake had this table then."""

    def read(self, table: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        """These columns of the rows that fulfil all conditions. Raises LakeError."""


def all_of(conditions: Sequence[Condition]) -> pc.Expression | None:
    """All conditions as one for Arrow datasets; None without any."""
    expressions = [condition.expression for condition in conditions]
    return reduce(lambda left, right: left & right, expressions) if expressions else None
