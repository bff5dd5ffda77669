"""Arrow record batches in order, and functions over them.

Spark's Python workers call such functions (`mapInArrow`); they run the same without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]
BatchFunction = Callable[[Batches], Batches]
"""Takes the batches of one partition of a DataFrame, and yields the batches of the result."""
