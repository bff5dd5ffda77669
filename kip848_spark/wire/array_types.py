"""NumPy array types that several packages share. All arrays are one-dimensional
unless a docstring gives another shape."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

UInt8Array = npt.NDArray[np.uint8]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
