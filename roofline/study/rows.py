"""Rows of a sweep: configurations with their names, numbers, figures and what they miss.

``pyarrow.array`` would do, but looks whether it was given something of pandas, and imports all of
pandas to know: in every worker of a sweep, longer than many a chunk takes.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.serving.phases import LIMITS
from roofline.study.scenario.limits import FIGURES, missed
from roofline.study.scenario.scenario import Scenario
from roofline.study.sweep.keep import MEMORY, PointRows
from roofline.table import BASES

if TYPE_CHECKING:
    import pyarrow as pa


def numbers(values: NDArray[Any]) -> "pa.Array":
    """Column of integers, or of floating-point numbers of which nan is missing.

    Examples:
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

    Examples:
        >>> truths(np.array([True, False])).to_pylist()
        [True, False]
    """
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(_bits(values))])


def words(codes: NDArray[Any], names: Sequence[str]) -> "pa.DictionaryArray":
    """Column of words, from places in a list of them.

    Examples:
        >>> words(np.array([1, 0, 1]), ["", "vllm"]).to_pylist()
        ['vllm', '', 'vllm']
    """
    import pyarrow as pa

    text = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, text)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(text))]
    known = pa.Array.from_buffers(pa.string(), len(text), buffers)
    return pa.DictionaryArray.from_arrays(numbers(np.asarray(codes, np.int32)), known)


def values(column: "pa.ChunkedArray") -> NDArray[Any]:
    """Numbers or booleans of a column, nan where one is missing.

    Examples:
        >>> import pyarrow as pa
        >>> values(pa.chunked_array([numbers(np.array([1.0, np.nan]))])).tolist()
        [1.0, nan]
    """
    import pyarrow as pa

    whole = pa.concat_arrays(column.chunks) if column.num_chunks else column.combine_chunks()
    known, data = whole.buffers()
    rows = slice(whole.offset, whole.offset + len(whole))
    if not len(whole):
        return np.empty(0, whole.type.to_pandas_dtype())
    if pa.types.is_boolean(whole.type):
        return _truths(data)[rows]
    found = np.frombuffer(data, whole.type.to_pandas_dtype())[rows]
    return found if known is None else np.where(_truths(known)[rows], found, np.nan)


def places(column: "pa.ChunkedArray") -> tuple[NDArray[Any], list[str]]:
    """Words of a column as places in a list, and the list.

    Examples:
        >>> import pyarrow as pa
        >>> places(pa.chunked_array([words(np.array([1, 0]), ["", "vllm"])]))
        (array([1, 0], dtype=int32), ['', 'vllm'])
    """
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks = coded.unify_dictionaries().chunks
    listed: list[str] = chunks[0].dictionary.to_pylist() if chunks else []
    return values(pa.chunked_array([each.indices for each in chunks], pa.int32())), listed


def _truths(bits: "pa.Buffer") -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little").astype(np.bool_)


def _bits(values: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(values, bitorder="little")


DEGREES: Final = ("tp", "pp", "dp", "ep", "cp")
_WHOLE: Final = ("index", "gpus", *DEGREES, "batch", "prompt", "output", "concurrency")
_WORDS: Final = {"decode_bound": LIMITS, "prefill_bound": LIMITS, "basis": BASES}
"""Columns that points have as places in a list of words; −1 is none of them."""
_ASKED: Final = ("gpus", "batch", "prompt", "output", "rate_per_s", "concurrency")
"""Figures that a limit can be about and that come before all others."""


def columns(scenario: Scenario) -> dict[str, str]:
    """Columns of a scenario in their order, and the base unit of each; empty for none."""
    batch = scenario.kind == "batch"
    names = ["index", "model", "gpu", "node", "gpus", "layout", *DEGREES, "weights", "kv", "engine"]
    names += ["technique"] if batch else ["workload", "policy"]
    names += ["patch"] if len(scenario.patches) > 1 else []
    names += list(scenario.numbers)
    known = FIGURES[scenario.kind]
    for name, figure in known.items():
        if name not in _ASKED and not name.endswith(("_low", "_high")):
            names += [name, *(f"{name}_{end}" for end in ("low", "high") if figure.interval)]
    names += ["fits", *(_WORDS if batch else ["basis"]), "feasible", "limit"]
    units = {name: figure.unit.replace("tok/s", "token/s") for name, figure in known.items()}
    return {name: units.get(name, "") for name in names}


def rows(scenario: Scenario, points: PointRows, limit: str = "") -> "pa.Table":
    """Table of points of a lane: all ruled out by one limit, or each judged by its own figures."""
    import pyarrow as pa

    fits = np.asarray(points["fits"], bool)
    given = np.where(fits, limit, limit or MEMORY)
    limits = given if limit else missed(scenario.limits, points, given)
    special: Mapping[str, Any] = {"fits": fits, "limit": limits, "feasible": limits == ""}
    names = list(columns(scenario))
    return pa.table([_column(name, points, special) for name in names], names)


def _column(name: str, points: PointRows, special: Mapping[str, Any]) -> "pa.Array":
    if name in ("fits", "feasible"):
        return truths(special[name])
    if name == "limit":
        limits, codes = np.unique(special[name], return_inverse=True)
        return words(codes, limits.tolist())
    if name in points.names and name != "gpus":
        value = points.names[name]
        if isinstance(value, str):
            return words(np.zeros(points.rows), [value])
        return numbers(np.full(points.rows, value, np.int64))
    values = np.asarray(points[name], np.float64)
    if name in _WORDS:
        return words(np.nan_to_num(values, nan=-1.0) + 1.0, ["", *_WORDS[name]])
    return numbers(values.astype(np.int64) if name in _WHOLE else values)
