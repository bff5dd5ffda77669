"""The plans for the control records of each dialect, and the columns that all dialects share."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.decode import DecodePlan
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.dialects import load_plan


@cache
def control_plan(variant: str) -> ControlPlan:
    """The plan for the control records of a variant of a dialect. Raises KeyError if there is no
    such variant."""
    return ControlPlan.of(load_plan(variant))


CONTROL_PLAN = ControlPlan.of(DecodePlan.of(load_shipped()))
"""The plan for the shipped dialect (Kafka 4.0 and later)."""
CONTROL_FIELDS: dict[str, pa.DataType] = CONTROL_PLAN.fields()
"""The columns of decoded control records and their Arrow types. They are those of the shipped
dialect; records of other dialects are decoded to the same columns."""
