"""Arrow columns made of their buffers.

``pyarrow.array`` would do, but looks whether it was given something of pandas, and imports all of
pandas to know: in every worker of a sweep, longer than many a chunk takes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def numbers(values: NDArray[Any]) -> "pa.Array":
    """Column of integers, or of floating-point numbers of which nan is missing.

    Examples
    --------
    >>> numbers(np.array([1.0, np.nan])).to_pylist()
    [1.0, None]
    """
    import pyarrow as pa

    found = np.ascontiguousarray(values)
    known = None
    if found.dtype.kind == "f" and (missing := np.isnan(found)).any():
        known = pa.py_buffer(_bits(~missing))
    kind = pa.from_numpy_dtype(found.dtype)
    return pa.Array.from_buffers(kind, len(found), [known, pa.py_buffer(found)])


def truths(values: NDArray[np.bool_]) -> "pa.Array":
    """Column of booleans.

    Examples
    --------
    >>> truths(np.array([True, False])).to_pylist()
    [True, False]
    """
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(_bits(values))])


def words(codes: NDArray[Any], names: Sequence[str]) -> "pa.DictionaryArray":
    """Column of words by their places in a list.

    Examples
    --------
    >>> words(np.array([1, 0, 1]), ["", "vllm"]).to_pylist()
    ['vllm', '', 'vllm']
    """
    import pyarrow as pa

    text = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, text)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(text))]
    known = pa.Array.from_buffers(pa.string(), len(text), buffers)
    return pa.DictionaryArray.from_arrays(numbers(np.asarray(codes, np.int32)), known)


def _bits(values: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(values, bitorder="little")
