"""Constants of all engines at once, from the logarithms of measured over predicted metrics.

Rows of one (device, engine, network) share what the model lacks for them, so a group counts as one
random effect and not as its number of rows: residual = J·(θ − θ₀) + u_group + e_row, with priors on
θ. Solved by Gauss-Newton with a robust weight on each row.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.end_to_end import engines
from roofline.bench.end_to_end.cases import contradicted
from roofline.bench.end_to_end.engines import CONSTANTS, KERNELS, PROFILES
from roofline.bench.end_to_end.replay import CLOSED, FULL, Known, with_profile
from roofline.cost.engine_costs import EngineProfile
from roofline.cost.work import Array
from roofline.hardware.engine import Engine

Integers = NDArray[np.int64]

NAMES: Final = (
    *(f"{engine}.{constant}" for engine in PROFILES for constant in CONSTANTS),
    *KERNELS,
)
PLACE: Final = {name: place for place, name in enumerate(NAMES)}
ROW_SD: Final = {"ttft_s": 0.2, "tpot_s": 0.05, "latency_s": 0.08, "throughput_tok_s": 0.08}
GROUP_SD: Final = {"ttft_s": 0.25, "tpot_s": 0.12, "latency_s": 0.1, "throughput_tok_s": 0.1}
"""Log standard deviation of a row around its group, and of groups, as far as constants cannot tell
them apart. Assumed."""
LOOSER: Final = 1.5
"""Factor on both for a row at full load, where settings that nobody states count most."""
ROBUST: Final = (2.0, 1.0, 1.0, 1.0)
"""Deviations at which a row counts half, from one round of weights to the next."""
NUDGE: Final = 0.1
"""Step of a derivative, of the logarithm of a constant."""
LONGEST: Final = 1.0
"""Of a step of the search, of the logarithm of a constant."""
THREADS: Final = 2
STEPS: Final = 3
"""Steps of a search, with the derivatives at its start. [1]"""


def priors() -> tuple[Array, Array]:
    """Logarithms of all constants before any row, and their standard deviations."""
    pairs = [engines.prior(engine, name) for engine in PROFILES for name in CONSTANTS]
    pairs += [(each.prior, each.log_sd) for each in KERNELS.values()]
    values, spreads = (np.array(column) for column in zip(*pairs, strict=True))
    return np.log(values), spreads


def profile_of(each: Known, logs: Array) -> EngineProfile:
    """Constants of a row's engine.

    Parameters
    ----------
    each
        The row.
    logs
        Logarithms in the order of `NAMES`.
    """
    return assembled(logs, each.engine)


def assembled(
    logs: Array, engine: Engine, misses: tuple[tuple[str, float, float], ...] = ()
) -> EngineProfile:
    """Constants of an engine as one record.

    Parameters
    ----------
    logs
        Logarithms of all constants.
    engine
        Whose. One that runs no CUDA graphs has kernels as they were believed to be before any row.
    misses
        Spreads by kind of network, as in `EngineProfile`.
    """
    own = {name: float(np.exp(logs[PLACE[f"{engine.profile}.{name}"]])) for name in CONSTANTS}
    kernels = {
        name: float(np.exp(logs[PLACE[name]])) if engine.graph_kernels else known.prior
        for name, known in KERNELS.items()
    }
    reach = engine.decode_reach_bytes_per_s
    return EngineProfile(**own, **kernels, reach_bytes_per_s=reach, spreads=misses)


def predictions(rows: Sequence[Known], logs: Array) -> list[Mapping[str, float]]:
    """Every metric of each row, at given constants."""

    def one(each: Known) -> Mapping[str, float]:
        return each.predicted(profile_of(each, logs))

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, rows))


@dataclass(frozen=True, slots=True)
class Cells:
    """Measured metrics of rows, one after the other.

    Attributes
    ----------
    row, metric
        Which row [1] and which metric each cell is.
    measured
        Logarithms.
    group
        Number of the (device, engine, network, metric) it belongs to. [1]
    row_sd, group_sd
        Log standard deviations. [1]
    """

    row: Integers
    metric: tuple[str, ...]
    measured: Array
    group: Integers
    row_sd: Array
    group_sd: Array


def cells(rows: Sequence[Known]) -> Cells:
    """All metrics that rows have, but those that their others contradict."""
    found = [
        (place, metric, np.log(value), (*each.group, metric), each.row.mode)
        for place, each in enumerate(rows)
        for metric, value in each.row.measured.items()
        if metric != contradicted(each.row)
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(f[3] for f in found))}
    looser = np.array([LOOSER if mode in FULL else 1.0 for *_, mode in found])
    tighter = np.array([0.5 if f[1] == "ttft_s" and f[4] != CLOSED else 1.0 for f in found])
    return Cells(
        np.array([f[0] for f in found], dtype=np.int64),
        tuple(f[1] for f in found),
        np.array([f[2] for f in found]),
        np.array([numbers[f[3]] for f in found], dtype=np.int64),
        np.array([ROW_SD[f[1]] for f in found]) * looser * tighter,
        np.array([GROUP_SD[f[1]] for f in found]) * looser * tighter,
    )


def residuals(
    rows: Sequence[Known], has: Cells, logs: Array, which: Integers | None = None
) -> Array:
    """Logarithm of predicted over measured, cell by cell; 0 for rows that are not among `which`."""
    places = list(range(len(rows))) if which is None else [int(place) for place in which]
    told = predictions([rows[place] for place in places], logs)
    found = dict(zip(places, told, strict=True))
    asked = np.isin(has.row, places)
    values = [
        found[row][metric]
        for row, metric, wanted in zip(has.row.tolist(), has.metric, asked, strict=True)
        if wanted
    ]
    out = np.zeros(len(has.row))
    out[asked] = np.log(np.maximum(values, 1e-12)) - has.measured[asked]
    return out


def derivatives(
    rows: Sequence[Known],
    has: Cells,
    logs: Array,
    at: Array,
    constants: Sequence[str] = (*CONSTANTS, *KERNELS),
) -> Array:
    """Of each cell by the logarithm of each constant; engines are nudged all at once.

    Parameters
    ----------
    rows, has, logs, at
        Rows, their cells, where the derivatives are taken, and the residuals there.
    constants
        By which ones; it is 0 by the others, which a fit then leaves where they are.
    """
    out = np.zeros((len(has.row), len(NAMES)))
    mine = np.array([rows[row].engine.profile for row in has.row])
    before = [_felt(each, logs) for each in rows]
    for constant in constants:
        nudged = logs.copy()
        own = constant in CONSTANTS
        names = [f"{engine}.{constant}" for engine in PROFILES] if own else [constant]
        nudged[[PLACE[name] for name in names]] += NUDGE
        moved = [_felt(each, nudged) != old for each, old in zip(rows, before, strict=True)]
        cell = np.flatnonzero(np.array(moved, dtype=np.bool_)[has.row])
        there = residuals(rows, has, nudged, np.flatnonzero(moved))
        columns = [PLACE[f"{engine}.{constant}" if own else constant] for engine in mine[cell]]
        out[cell, columns] = (there - at)[cell] / NUDGE
    return out


def _felt(each: Known, logs: Array) -> tuple[object, ...]:
    """Constants as they act on a row's network and device."""
    priced = with_profile(each.deployment, profile_of(each, logs))
    return priced.kernel_gains, priced.engine_costs


def improved(
    has: Cells,
    at: Array,
    slopes: Array,
    logs: Array,
    believed: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Constants that agree best with cells, as far as these are linear in them.

    Parameters
    ----------
    has, at, slopes
        Cells, their residuals at ``logs`` and the derivatives.
    logs
        Where the search begins.
    believed
        Logarithms before these cells and their standard deviations; None for `priors`.

    Returns
    -------
    tuple
        Logarithms, and their covariance.
    """
    center, spread = priors() if believed is None else believed
    moved = logs.copy()
    inverse: Array = np.diag(spread**2)
    order = np.argsort(has.group, kind="stable")
    first = np.flatnonzero(np.diff(has.group[order], prepend=-1))
    tau = has.group_sd[order][first] ** 2

    def grouped(cells: Array) -> Array:
        """Sums over the cells of each group."""
        return np.asarray(np.add.reduceat(cells[order], first, axis=0))

    for scale in ROBUST:
        left = at + slopes @ (moved - logs)
        weight = 1.0 / (1.0 + (left / (scale * has.row_sd)) ** 2) / has.row_sd**2
        weighed = slopes * weight[:, None]
        mean, share = grouped(weighed), tau / (1.0 + tau * grouped(weight))
        normal = np.diag(spread**-2.0) + weighed.T @ slopes - (mean * share[:, None]).T @ mean
        pull = (moved - center) / spread**2 + weighed.T @ left
        pull -= mean.T @ (share * grouped(weight * left))
        inverse = np.asarray(np.linalg.inv(normal), dtype=np.float64)
        moved = moved - np.clip(inverse @ pull, -LONGEST, LONGEST)
    return moved, inverse


@dataclass(frozen=True, slots=True)
class Linear:
    """Cells around some constants, where a search begins.

    Attributes
    ----------
    start
        Logarithms of the constants.
    at, slopes
        Residuals there, and their derivatives by the logarithm of each constant.
    """

    start: Array
    at: Array
    slopes: Array


def linear(rows: Sequence[Known], has: Cells, start: Array | None = None) -> Linear:
    """Residuals of cells at some constants, the priors if not stated, and their derivatives."""
    start = priors()[0] if start is None else start
    at = residuals(rows, has, start)
    return Linear(start, at, derivatives(rows, has, start, at))


def fit(rows: Sequence[Known], near: Linear) -> tuple[Array, Array]:
    """Logarithms of all constants fitted to rows, and their standard deviations.

    Parameters
    ----------
    rows
        To be fitted to.
    near
        Their cells around the constants that the search begins at.
    """
    has, logs = cells(rows), near.start
    at, covariance = near.at, np.zeros(0)
    for _ in range(STEPS):
        logs, covariance = improved(has, at, near.slopes, logs)
        at = residuals(rows, has, logs)
    return logs, np.sqrt(np.diag(covariance))
