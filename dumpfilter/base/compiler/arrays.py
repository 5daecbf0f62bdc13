"""Types of numpy arrays for the annotations of kernels (compiled functions). Each has a dtype and a number of
dimensions, and means contiguous in C order.
"""

from __future__ import annotations

import numpy as np

Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Bytes2 = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
Bytes3 = np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]
Int32s = np.ndarray[tuple[int], np.dtype[np.int32]]
Int32s2 = np.ndarray[tuple[int, int], np.dtype[np.int32]]
Int64s = np.ndarray[tuple[int], np.dtype[np.int64]]
Int64s2 = np.ndarray[tuple[int, int], np.dtype[np.int64]]
UInt32s = np.ndarray[tuple[int], np.dtype[np.uint32]]
UInt64s = np.ndarray[tuple[int], np.dtype[np.uint64]]
UInt64s2 = np.ndarray[tuple[int, int], np.dtype[np.uint64]]
