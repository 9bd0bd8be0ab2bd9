"""Rows of a sweep: configurations with their names, numbers, figures and what they miss."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.study import long_run, pointwise
from roofline.study.scenario.lane import Lane
from roofline.study.scenario.limits import FIGURES, missed
from roofline.study.scenario.scenario import Scenario

if TYPE_CHECKING:
    import pyarrow as pa

DEGREES: Final = ("tp", "pp", "dp", "ep", "cp")
_COUNTS: Final = ("batch", "prompt", "output", "concurrency")


def columns(scenario: Scenario) -> dict[str, str]:
    """Columns of a scenario in their order, and the base unit of each; empty for none."""
    batch = scenario.kind == "batch"
    names = ["index", "model", "gpu", "node", "gpus", "layout", *DEGREES, "weights", "kv", "engine"]
    names += ["technique"] if batch else ["workload", "policy"]
    names += ["patch"] if len(scenario.patches) > 1 else []
    names += list(scenario.numbers)
    figures = pointwise.NUMBERS if batch else long_run.NUMBERS
    for name in figures[1:]:
        names.append(name)
        names += [name + end for end in ("_low", "_high") if batch and name in pointwise.ENDED]
    names += ["fits", "decode_bound", "prefill_bound", "basis"] if batch else ["fits"]
    names += ["feasible", "limit"]
    units = {"tok/s": "token/s"}
    known = FIGURES[scenario.kind]
    return {
        name: units.get(known[name].unit, known[name].unit) if name in known else ""
        for name in names
    }


def rows(
    scenario: Scenario,
    lane: Lane,
    index: int,
    numbers: Mapping[str, Array],
    figures: Mapping[str, Array],
    words: Mapping[str, NDArray[np.str_]],
) -> "pa.Table":
    """Table of some points of a lane.

    Parameters
    ----------
    scenario, lane
        What was asked, and what all have in common.
    index
        Number of the first configuration.
    numbers, figures, words
        Columns: what they are asked at, what comes of it, and ``limit``: what rules them out.
    """
    import pyarrow as pa

    count = len(next(iter(numbers.values())))
    known = {**numbers, **figures}
    limit = missed(scenario.limits, known, words["limit"])
    out: dict[str, Any] = {
        **{name: np.full(count, value) for name, value in lane.labels.items()},
        **known,
        **words,
        "index": np.arange(index, index + count),
        "fits": np.asarray(words["limit"] != "memory") & (lane.limit == ""),
        "feasible": limit == "",
        "limit": limit,
    }
    return pa.table(
        [_array(name, out[name]) for name in columns(scenario)], list(columns(scenario))
    )


def _array(name: str, values: Array) -> "pa.Array":
    import pyarrow as pa

    if values.dtype.kind == "U":
        return pa.array(values.tolist(), pa.string()).dictionary_encode()
    if values.dtype.kind == "b":
        return pa.array(values)
    if name in ("index", "gpus", *DEGREES, *_COUNTS):
        return pa.array(np.asarray(values, np.int64))
    return pa.array(np.asarray(values, np.float64), from_pandas=True)
