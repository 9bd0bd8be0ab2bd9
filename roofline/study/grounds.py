"""Notes that a reader must know to read the rows of a sweep right, one sentence each."""

from collections.abc import Mapping, Sequence
from math import exp
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import distinct
from roofline.serving.simulate.steady.errors import CLOSED, LOADS, open_sd
from roofline.serving.static import CENTRAL
from roofline.study.rows import places, values
from roofline.units import show

if TYPE_CHECKING:
    import pyarrow as pa

ENDED: Final = "ttft_s"
"""A figure that has an interval where anything was measured."""
COLUMNS: Final = ("gpu", "basis", "engine", f"{ENDED}_low")
"""Columns that the sentences depend on."""
DATASHEET: Final = "datasheet"
"""Basis of rows that are bounds."""


TOLD: Final = (0.5, 0.7, 0.9)
"""Loads of which it is said how far the closed form was off, over saturation."""
PARTLY: Final = (
    "Rows with basis datasheet and an interval have operators that nothing like was measured, such "
    "as links between nodes: those are at published rates, and widen it."
)


PRICES: Final = "prices in the scenario: dollars for a device and hour, by its name"
"""Setting of a scenario that says what devices cost, in words."""


def notes(rows: "pa.Table", about: Mapping[str, Any]) -> tuple[str, ...]:
    """Grounds of figures, and omissions, from the `COLUMNS` of rows and the metadata of a sweep."""
    out = [*_bounds(rows)]
    if about.get("unpriced"):
        out.append(
            f"No price is known for {_listed(about['unpriced'])}: what has one ranks before them. "
            f"Give {PRICES}."
        )
    if about.get("of") == "traffic":
        return (*out, *_long_run(rows, "rate_per_s" not in about.get("units", {})))
    if about.get("of") == "batch":
        out += _software(rows, about.get("engine_costs", {}))
    return tuple(out)


def bounds(rows: "pa.Table") -> NDArray[np.bool_]:
    """Rows of which nothing was measured: at published rates, and without an interval."""
    if "basis" not in rows.column_names:
        return np.zeros(len(rows), np.bool_)
    basis, listed = places(rows["basis"])
    published = np.array([name == DATASHEET for name in listed], np.bool_)
    found: NDArray[np.bool_] = published[basis] & ~_ended(rows)
    return found


def _ended(rows: "pa.Table") -> NDArray[np.bool_]:
    """Rows with an interval."""
    low = f"{ENDED}_low"
    if low not in rows.column_names:
        return np.zeros(len(rows), np.bool_)
    ended: NDArray[np.bool_] = ~np.isnan(values(rows[low]))
    return ended


def _bounds(rows: "pa.Table") -> list[str]:
    """Notes on GPUs that are priced at published rates."""
    if "basis" not in rows.column_names or not len(rows):
        return []
    (gpu, gpus), (basis, known) = places(rows["gpu"]), places(rows["basis"])
    codes = distinct((gpu * len(known) + basis) * 2 + _ended(rows)).tolist()
    groups = [
        (gpus[code // 2 // len(known)], known[code // 2 % len(known)], code % 2) for code in codes
    ]
    bare = [gpu for gpu, basis, ended in groups if basis == DATASHEET and not ended]
    out = [PARTLY] if any(basis == DATASHEET and ended for _, basis, ended in groups) else []
    if not bare:
        return out
    whole = len(bare) == len(groups)
    named = (
        "All rows are" if whole else f"Rows of {_listed(sorted(set(bare)))} without an interval are"
    )
    rest = "" if whole else ": they are ranked among themselves, after the others, and beat none"
    return [
        *out,
        f"{named} priced at published rates: their times and costs are the least, their "
        f"throughput the most that the hardware allows. They are bounds, not forecasts{rest}.",
    ]


def _software(rows: "pa.Table", costs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Overheads of an engine, with its constants where all rows share one."""
    if "engine" not in rows.column_names:
        return []
    codes, engines = places(rows["engine"])
    (code, *others) = distinct(codes).tolist() or [None]
    known = costs.get(engines[code]) if code is not None and not others else None
    if not known or bounds(rows).all():
        return []
    return [
        f"Times include what an engine does between kernels: {known['title']} takes "
        f"{show(known['step_s'], 's')} for each step, {show(known['sequence_s'], 's')} for each of "
        f"its sequences, and {show(known['prefill_s'], 's')} more for a step with prompts, as "
        "fitted to serving that was measured end to end."
    ]


def _long_run(rows: "pa.Table", clients: bool) -> tuple[str, ...]:
    """Source of the figures of traffic, and grounds of their intervals."""
    form = (
        "Closed form of the long run, Poisson arrivals or clients that ask again; prefixes are "
        "not shared. `roofline simulate` serves request by request."
    )
    if clients:
        off = f"± {CLOSED['ttft_s']:.0%} (TTFT) and ± {CLOSED['tpot_s']:.0%} (TPOT)"
    else:
        off = "; ".join(
            f"± {_within('ttft_s', load)} (TTFT) and ± {_within('tpot_s', load)} (TPOT) at "
            f"{load:.0%} of saturation"
            for load in TOLD
        )
    alone = f"how far the closed form was off the simulator, 4 of 5 means within {off}"
    if not _ended(rows).any():
        return form, f"Not in these figures: {alone}."
    beyond = "" if clients else f" Beyond {LOADS[-1]:.0%} of saturation no time has an interval."
    return (
        form,
        "Low and high hold a mean in 4 of 5 cases: what is not known of kernels and of the engine, "
        f"and {alone}. 99th percentiles have none.{beyond}",
    )


def _within(name: str, load: float) -> str:
    """Half of the central 80 % of what the closed form is off at a load."""
    return f"{exp(CENTRAL * float(open_sd(name, np.array(load)))) - 1.0:.0%}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
