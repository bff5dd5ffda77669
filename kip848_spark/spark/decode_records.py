"""Decodes a Spark DataFrame of raw records, without a lake."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from kip848_spark.errors import UsageError
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.wire.control_plans import control_plan
from kip848_spark.wire.decode_table import DECODED_FIELDS, decoder
from kip848_spark.wire.dialects import candidate_plans, check_dialect

_PREFIX = "record_"


def decode_records(records: DataFrame, dialect: str) -> DataFrame:
    """See `kip848_spark.api.decode_records`."""
    check_dialect(dialect)
    variants = list(candidate_plans(dialect))
    if len(variants) != 1:
        raise UsageError(
            f"{dialect} does not name one dialect, and decode_records does not read the records to "
            f"choose one.",
            f"Name one of {', '.join(variants)}; kip848_spark.decode chooses by a sample.",
        )
    types = {field.name: field.dataType for field in records.schema.fields}
    for name in ("key", "value"):
        if not isinstance(types.get(name), T.BinaryType):
            found = types[name].simpleString() if name in types else "missing"
            raise UsageError(
                f"decode_records needs a binary column {name}; it is {found}.",
                "Pass the DataFrame of Spark's Kafka source, or select and cast the two columns.",
            )
    others = [name for name in records.columns if name not in ("key", "value")]
    keep = {name: _PREFIX + name if name in DECODED_FIELDS else name for name in others}
    kept = [T.StructField(keep[name], types[name]) for name in others]
    decoded = from_arrow_schema(pa.schema(list(DECODED_FIELDS.items()))).fields
    return map_in_arrow(
        records, decoder(control_plan(variants[0]), keep), T.StructType([*kept, *decoded])
    )
