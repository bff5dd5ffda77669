"""Streams of Arrow record batches, and functions over them.

Spark's Python workers run such functions with ``mapInArrow``; they run the same without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]
BatchFunction = Callable[[Batches], Batches]
"""A function from the batches of one partition of a DataFrame to the batches of the result."""
