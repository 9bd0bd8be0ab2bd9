"""Constants of all engines at once, from the logarithms of measured over predicted metrics.

Rows of one (device, engine, network) share what the model lacks for them, so a group counts as one
random effect and not as its number of rows: residual = J·(θ − θ₀) + u_group + e_row, with priors on
θ. Solved by Gauss-Newton with a robust weight on each row.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.end_to_end import engines
from roofline.bench.end_to_end.cases import contradicted
from roofline.bench.end_to_end.driving import CLOSED
from roofline.bench.end_to_end.engines import CONSTANTS, KERNELS, PROFILES
from roofline.bench.end_to_end.metrics import NAMES, PLACE, Predictable, predictions_at
from roofline.bench.end_to_end.replay import FULL, PreparedRow
from roofline.cost.work import Array
from roofline.records import replace

Integers = NDArray[np.int64]

ROW_SD: Final = {"ttft_s": 0.2, "tpot_s": 0.05, "latency_s": 0.08, "throughput_tok_s": 0.08}
GROUP_SD: Final = {"ttft_s": 0.25, "tpot_s": 0.12, "latency_s": 0.2, "throughput_tok_s": 0.2}
"""Log standard deviation of a row around its group, and of groups, as far as constants cannot tell
them apart. Assumed; those of groups are what middle residuals of groups have at fitted constants:
TPOT of closed loops 0.13, latency 0.16 to 0.23, throughput 0.19 to 0.22, TTFT 0.13 to 0.3."""
LOOSER: Final = 1.5
"""Factor on both for a row at full load, where settings that nobody states count most."""
ROBUST: Final = (2.0, 1.0, 1.0, 1.0)
"""Deviations at which a row counts half, from one round of weights to the next."""
NUDGE: Final = 0.1
"""Step of a derivative, of the logarithm of a constant."""
LONGEST: Final = 1.0
"""Most that a step of the search moves the logarithm of a constant."""
STEPS: Final = 4
"""Most steps of a search, each with derivatives of its own. [1]"""
ENOUGH: Final = 5.0
"""Gain of a step, in `loss`, below which a search ends. [1]"""
TRUST: Final = (np.inf, 1.0, 0.3, 0.1, 0.03)
"""Widths around the start within which a step is trusted, over those of the priors: closed loops
are not as linear as their derivatives. [1]"""


def priors() -> tuple[Array, Array]:
    """Logarithms of all constants before any row, and their standard deviations."""
    pairs = [engines.prior(engine, name) for engine in PROFILES for name in CONSTANTS]
    pairs += [(each.prior, each.log_sd) for each in KERNELS.values()]
    values, spreads = (np.array(column) for column in zip(*pairs, strict=True))
    return np.log(values), spreads


class MeasuredCells(Struct, frozen=True):
    """Measured metrics of rows as one column: a cell is one metric of one row."""

    row: Integers
    metric: tuple[str, ...]
    """Row [1] and metric of each cell."""
    measured: Array
    """Logarithm of each measured value."""
    group: Integers
    """Number of the group of each cell: device, engine, network and metric. [1]"""
    row_sd: Array
    group_sd: Array
    """Log standard deviation of a cell around its group, and of groups. [1]"""


def cells(rows: Sequence[PreparedRow]) -> MeasuredCells:
    """Metrics of rows as cells, without a metric that the others of its row contradict."""
    found = [
        (place, metric, np.log(value), (*each.group, metric), each.row.mode)
        for place, each in enumerate(rows)
        for metric, value in each.row.measured.items()
        if metric != contradicted(each.row)
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(f[3] for f in found))}
    looser = np.array([LOOSER if mode in FULL else 1.0 for *_, mode in found])
    tighter = np.array([0.5 if f[1] == "ttft_s" and f[4] != CLOSED else 1.0 for f in found])
    return MeasuredCells(
        np.array([f[0] for f in found], dtype=np.int64),
        tuple(f[1] for f in found),
        np.array([f[2] for f in found]),
        np.array([numbers[f[3]] for f in found], dtype=np.int64),
        np.array([ROW_SD[f[1]] for f in found]) * looser * tighter,
        np.array([GROUP_SD[f[1]] for f in found]) * looser * tighter,
    )


def some(has: MeasuredCells, which: NDArray[np.bool_]) -> MeasuredCells:
    """Some of the cells."""
    return replace(
        has,
        row=has.row[which],
        metric=tuple(name for name, keep in zip(has.metric, which, strict=True) if keep),
        measured=has.measured[which],
        group=has.group[which],
        row_sd=has.row_sd[which],
        group_sd=has.group_sd[which],
    )


def residuals(rows: Sequence[Predictable], has: MeasuredCells, logs: Array) -> Array:
    """Logarithm of predicted over measured, cell by cell."""
    out: Array = residuals_at(rows, has, logs[None])[0]
    return out


def residuals_at(
    rows: Sequence[Predictable],
    has: MeasuredCells,
    logs: Array,
    wanted: NDArray[np.bool_] | None = None,
) -> Array:
    """Logarithm of predicted over measured at several constants, of shape (vectors, cells).

    Args:
        rows, has: Rows and their cells.
        logs: Logarithms of all constants, of shape (vectors, constants).
        wanted: Rows that are predicted; None for all. Cells of the others are NaN.
    """
    asked = None if wanted is None else np.tile(wanted, (len(logs), 1))
    found = predictions_at(rows, logs, asked)
    cells = list(zip(has.row.tolist(), has.metric, strict=True))
    values = [
        [found[row][at].get(metric, np.nan) for row, metric in cells] for at in range(len(logs))
    ]
    return np.asarray(np.log(np.maximum(values, 1e-12)) - has.measured)


def improved(
    has: MeasuredCells,
    at: Array,
    slopes: Array,
    logs: Array,
    believed: tuple[Array, Array] | None = None,
    trust: float = np.inf,
) -> tuple[Array, Array]:
    """Constants that fit the cells best, predictions taken as linear in them.

    Args:
        has, at, slopes: Cells, their residuals at ``logs`` and the derivatives.
        logs: Where the search begins.
        believed: Prior means of the logarithms and their standard deviations; None for `priors`.
        trust: One of `TRUST`.

    Returns:
        tuple: Logarithms, and their covariance.
    """
    center, spread = priors() if believed is None else believed
    moved = logs.copy()
    tether = (trust * spread) ** -2.0
    precision = spread**-2.0 + tether
    inverse: Array = np.diag(1.0 / precision)
    # Of a constant that no cell depends on nothing is known but what was believed.
    told = np.flatnonzero(slopes.any(axis=0))
    slopes = slopes[:, told]
    order = np.argsort(has.group, kind="stable")
    first = np.flatnonzero(np.diff(has.group[order], prepend=-1))
    tau = has.group_sd[order][first] ** 2

    def grouped(cells: Array) -> Array:
        """Sums over the cells of each group."""
        return np.asarray(np.add.reduceat(cells[order], first, axis=0))

    for scale in ROBUST:
        left = at + slopes @ (moved - logs)[told]
        weight = 1.0 / (1.0 + (left / (scale * has.row_sd)) ** 2) / has.row_sd**2
        weighed = slopes * weight[:, None]
        mean, share = grouped(weighed), tau / (1.0 + tau * grouped(weight))
        normal = np.diag(precision[told]) + weighed.T @ slopes - (mean * share[:, None]).T @ mean
        pull = (moved - center) / spread**2 + (moved - logs) * tether
        pull[told] += weighed.T @ left - mean.T @ (share * grouped(weight * left))
        inverse[np.ix_(told, told)] = np.linalg.inv(normal)
        moved = moved - np.clip(inverse @ pull, -LONGEST, LONGEST)
    return moved, inverse


class LinearModel(Struct, frozen=True):
    """Linear model of the cells around the constants where a search begins."""

    start: Array
    """Logarithms of the constants."""
    at: Array
    slopes: Array
    """Residuals there, and their derivatives by the logarithm of each constant."""


def linear(
    rows: Sequence[Predictable],
    has: MeasuredCells,
    start: Array | None = None,
    constants: Sequence[str] = (*CONSTANTS, *KERNELS),
    before: LinearModel | None = None,
) -> LinearModel:
    """Residuals of cells and their derivatives; engines are nudged all at once.

    Args:
        rows, has: Rows and their cells.
        start: Logarithms of the constants there; None for the priors.
        constants: Constants to differentiate by. Derivatives by the others are 0, so that a fit
            leaves them as they are.
        before: The same of earlier. Rows keep these derivatives if all of their residuals at the
            same constants are still the same, to the last bit.
    """
    start = priors()[0] if start is None else start
    engine = [rows[row].engine.profile for row in has.row]
    nudged = np.tile(start, (1 + len(constants), 1))
    for vector, constant in zip(nudged[1:], constants, strict=True):
        own = constant in CONSTANTS
        names = [f"{each}.{constant}" for each in PROFILES] if own else [constant]
        vector[[PLACE[name] for name in names]] += NUDGE
    again = np.ones(len(rows), dtype=np.bool_)
    if before is not None and not np.array_equal(before.start, start):
        before = None
    if before is not None:
        moved = residuals(rows, has, start) != before.at
        again = np.isin(np.arange(len(rows)), has.row[moved])
    at, *there = residuals_at(rows, has, nudged, again)
    slopes = np.zeros((len(at), len(NAMES)))
    for each, constant in zip(there, constants, strict=True):
        own = constant in CONSTANTS
        columns = [PLACE[f"{name}.{constant}" if own else constant] for name in engine]
        slopes[np.arange(len(at)), columns] = (each - at) / NUDGE
    if before is not None:
        kept = ~again[has.row]
        at[kept], slopes[kept] = before.at[kept], before.slopes[kept]
    return LinearModel(start, at, slopes)


def loss(
    has: MeasuredCells, at: Array, logs: Array, believed: tuple[Array, Array] | None = None
) -> float:
    """Misfit of cells and of their groups, and of the constants to the priors. [1]

    Σ log(1 + (r − u)² / σ²) + Σ u² / τ² + Σ (θ − θ₀)² / s², u what the cells of a group share: the
    weights of `improved` are those of this logarithm.

    Args:
        has, at, logs: Cells, their residuals, and the constants that have them.
        believed: As of `improved`.
    """
    center, spread = priors() if believed is None else believed
    return misfit(has, at) + float((((logs - center) / spread) ** 2).sum())


def misfit(has: MeasuredCells, at: Array) -> float:
    """Term of `loss` for cells and their groups, without the priors. [1]"""
    weight = 1.0 / (1.0 + (at / has.row_sd) ** 2) / has.row_sd**2
    tau = np.zeros(has.group.max() + 1)
    tau[has.group] = has.group_sd**2
    shared = (
        tau * np.bincount(has.group, weight * at) / (1.0 + tau * np.bincount(has.group, weight))
    )
    rows = np.log1p(((at - shared[has.group]) / has.row_sd) ** 2).sum()
    groups = (shared[tau > 0] ** 2 / tau[tau > 0]).sum()
    return float(rows + groups)


def steps(
    has: MeasuredCells, near: LinearModel, believed: tuple[Array, Array] | None = None
) -> tuple[Array, Array]:
    """Candidates for the next step of the search, one vector for each width of `TRUST`.

    Args:
        has, near: Cells, around the constants that the step begins at.
        believed: As of `improved`.

    Returns:
        tuple: Logarithms, of shape (vectors, constants), and their covariance without a bound.
    """
    found = [improved(has, near.at, near.slopes, near.start, believed, trust) for trust in TRUST]
    return np.array([logs for logs, _ in found]), found[0][1]


def best(
    has: MeasuredCells,
    near: LinearModel,
    tried: Array,
    again: Callable[[Array], Array],
    believed: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Candidate with the least loss, the start included, and its residuals.

    Args:
        has, near: Cells around the constants at the start.
        tried: Logarithms of the others, of shape (vectors, constants).
        again: Residuals of the cells at several vectors of constants.
        believed: As of `improved`.
    """
    found = [(near.start, near.at), *zip(tried, again(tried), strict=True)]
    return min(found, key=lambda each: loss(has, each[1], each[0], believed))


def each_its_own(
    rows: Sequence[PreparedRow], has: MeasuredCells, near: LinearModel, tried: Array, kernels: Array
) -> Array:
    """Constants put together engine by engine: each takes its own from the candidate it fits best.

    The cells of an engine depend on its constants and on those of the kernels that all run, so
    one step, taken by all engines alike, would be as short as the least of them allows.

    Args:
        rows, has, near: Rows, their cells, and those around the constants at the start.
        tried: Logarithms of the candidates, of shape (vectors, constants).
        kernels: Vector that the constants of kernels are taken from.
    """
    center, spread = priors()
    tried = np.array([near.start, *tried])
    tried[:, -len(KERNELS) :] = kernels[-len(KERNELS) :]
    at = residuals_at(rows, has, tried)
    strain = ((tried - center) / spread) ** 2
    out: Array = tried[0].copy()
    profile = np.array([rows[row].engine.profile for row in has.row])
    for name in PROFILES:
        mine, own = profile == name, [PLACE[f"{name}.{constant}"] for constant in CONSTANTS]
        if mine.any():
            part = some(has, mine)
            costs = [
                misfit(part, left[mine]) + bent[own].sum()
                for left, bent in zip(at, strain, strict=True)
            ]
            out[own] = tried[int(np.argmin(costs)), own]
    return out


def fit(rows: Sequence[PreparedRow], near: LinearModel) -> tuple[LinearModel, Array]:
    """Cells around the constants fitted to rows, and the standard deviations of their logarithms.

    Args:
        rows: To be fitted to.
        near: Linear model of their cells at the start; what is returned fits no worse.
    """
    has, covariance = cells(rows), np.zeros(0)
    for _ in range(STEPS):
        tried, covariance = steps(has, near)
        kernels, _ = best(has, near, tried, lambda tried: residuals_at(rows, has, tried))
        moved = each_its_own(rows, has, near, tried, kernels)
        before = loss(has, near.at, near.start)
        after = loss(has, residuals(rows, has, moved), moved)
        if after >= before:
            break
        near = linear(rows, has, moved)
        if after > before - ENOUGH:
            break
    return near, np.sqrt(np.diag(covariance))
