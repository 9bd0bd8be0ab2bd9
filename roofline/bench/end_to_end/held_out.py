"""Predictions of networks by constants that were fitted without them, and their spread."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.end_to_end.cases import Case
from roofline.bench.end_to_end.deploying import deployment
from roofline.bench.end_to_end.fitting import (
    LinearModel,
    MeasuredCells,
    cells,
    improved,
    linear,
    some,
)
from roofline.bench.end_to_end.metrics import predictions_at
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.bench.engine_profiles import spread_keys
from roofline.cost.calibration.kernel import known
from roofline.cost.work import Array
from roofline.hardware.serving_engine import UNKNOWN
from roofline.serving.run.intervals import step_uncertainty

Integers = NDArray[np.int64]
FOLDS: Final = 10
NETWORKS: Final = 4
"""Networks that what is known more widely counts as, beside those that a spread is of: of fewer,
four fifths are no quantile. [1]"""
DEVIATIONS: Final = 1.2815515655446004
"""Standard deviations from the median of a normal variable to its 90th percentile."""
CENTRAL: Final = 0.8
DIGITS: Final = 12
"""Decimals to which shares are what they are by hand: three of five weights of 0.2 are 0.6. [1]"""
FLOOR: Final = 0.02
"""Least spread of a prediction. [1]"""
LONE: Final = 1.3
"""Factor on the spread of a profile, or of a mode, with no rows. Assumed."""

LIKE: Final = {"steady_rate": "steady_concurrency"}
"""Modes of which no row was measured, and the one whose spread they take, wider."""

TYPICAL: Final = {"batch": 32.0, "context": 1536.0, "prompt": 1024.0}
"""Load at which kernels of a device that none was measured on are weighed. Assumed. [1] [token]"""

Key = tuple[str, ...]
Spreads = Mapping[Key, float]


def folds(rows: Sequence[PreparedRow], number: int = FOLDS) -> Integers:
    """Fold of each row: a network under an engine goes whole, with all of its devices.

    Dealt out by kind of network and engine, so that no fold takes all mixtures of experts away.
    """
    pairs = sorted({(each.kind, *each.group[1:]) for each in rows})
    found = {pair: place % number for place, pair in enumerate(pairs)}
    return np.array([found[each.kind, *each.group[1:]] for each in rows], dtype=np.int64)


class HeldOut(Struct, frozen=True):
    """Predictions of rows by constants that saw nothing of their group."""

    metrics: list[Mapping[str, float]]
    """Every metric of each row."""
    log_sd: list[Mapping[str, float]]
    """Standard deviation of the logarithm of each measured metric of each row. [1]"""


def cross_validate(
    rows: Sequence[PreparedRow],
    fits: NDArray[np.bool_] | None = None,
    near: LinearModel | None = None,
) -> HeldOut:
    """Predict each row by constants fitted to other groups.

    The constants of every fold are where the rows of the others have them, as far as cells go
    straight from the constants that all have in common. Its spread comes from the other folds,
    each by constants that saw neither.

    Args:
        rows: To be predicted.
        fits: Which of them may be fitted to; None for all.
        near: Their cells around the constants that searches begin at; None for the priors.
    """
    has, label = cells(rows), folds(rows)
    where = label[has.row]
    good = np.ones(len(rows), dtype=np.bool_) if fits is None else fits
    used = good[has.row]
    near = near or linear(rows, has)
    start, at, slopes = near.start, near.at, near.slopes
    scored = np.unique(label)
    train = [(where != fold) & used for fold in scored]
    logs = np.stack([improved(some(has, rest), at[rest], slopes[rest], start)[0] for rest in train])
    held = label == scored[:, None]
    log_sd: list[Mapping[str, float]] = [{}] * len(rows)
    pairs: dict[frozenset[int], Array] = {}
    for fold, rest, mine in zip(scored, train, held, strict=True):
        missed = _nested(has, at, slopes, np.where(used, where, -1), int(fold), start, pairs)
        spreads = spread(rows, some(has, rest), missed[rest])
        for place in np.flatnonzero(mine).tolist():
            each = rows[place]
            log_sd[place] = {name: of(spreads, each, name) for name in each.row.measured}
    found = predictions_at(rows, logs, held)
    places = np.searchsorted(scored, label)
    return HeldOut([found[row][place] for row, place in enumerate(places)], log_sd)


def _nested(
    has: MeasuredCells,
    at: Array,
    slopes: Array,
    where: Integers,
    scored: int,
    start: Array,
    pairs: dict[frozenset[int], Array],
) -> Array:
    """Residuals of the other folds by constants that saw neither them nor the scored one.

    `pairs` has the constants of each two folds that were left out together before, and now these.
    """
    out = np.full(len(at), np.nan)
    for other in np.unique(where[where >= 0]).tolist():
        if other != scored:
            two = frozenset((other, scored))
            if two not in pairs:
                seen = (where != other) & (where != scored) & (where >= 0)
                pairs[two], _ = improved(some(has, seen), at[seen], slopes[seen], start)
            held = where == other
            out[held] = at[held] + slopes[held] @ (pairs[two] - start)
    return out


def keys(each: PreparedRow, metric: str) -> tuple[Key, ...]:
    """Keys that the spread of a metric of a row may be looked up by, the closest first."""
    mode = LIKE.get(each.row.mode, each.row.mode)
    return spread_keys(each.engine, mode, metric, each.deployment.node.gpu.architecture)


def spread(rows: Sequence[PreparedRow], has: MeasuredCells, missed: Array) -> Spreads:
    """Log standard deviation by engine, mode, metric and generation of devices, as far as rows go.

    So that the central 80 % of a lognormal holds that share of the residuals, where each network
    under an engine counts as one, however many rows it has: those of a network are off together.
    Few networks were measured under any engine, so residuals of the next wider key count as those
    of `NETWORKS` more. The quantile of a mean of the networks' distributions ("pooling CDFs",
    Dunn, Wasserman and Ramdas, 2022), shrunk level by level (Teh et al., 2006, "Hierarchical
    Dirichlet processes", equation 9).
    """
    found: dict[Key, dict[tuple[str, ...], list[float]]] = {}
    wider: dict[Key, Key] = {}
    for cell, (row, metric) in enumerate(zip(has.row, has.metric, strict=True)):
        chain = keys(rows[row], metric)
        wider.update(pairwise(chain))
        for key in chain:
            network = found.setdefault(key, {}).setdefault(rows[row].group[1:], [])
            network.append(abs(float(missed[cell])))
    out = {}
    for key in found:
        off, weight, left = [], [], 1.0
        at: Key | None = key
        while at is not None:
            networks = [np.array(each) for each in found[at].values()]
            at = wider.get(at)
            share = left / (len(networks) + (NETWORKS if at is not None else 0))
            off += networks
            weight += [np.full(len(each), share / len(each)) for each in networks]
            left = NETWORKS * share
        out[key] = max(_central(np.concatenate(off), np.concatenate(weight)) / DEVIATIONS, FLOOR)
    return {key: each for key, each in out.items() if key not in wider or out[wider[key]] != each}


def _central(off: Array, weight: Array) -> float:
    """Least residual that `CENTRAL` of all, by their weights, are within. [1]"""
    order = np.argsort(off)
    share = np.round(np.cumsum(weight[order]), DIGITS)
    return float(off[order][min(int(np.searchsorted(share, CENTRAL)), len(off) - 1)])


def of(spreads: Spreads, each: PreparedRow, metric: str) -> float:
    """Spread of a metric of a row; wider for an engine or a mode that no row was measured of.

    On a device of which no kernel was measured it is no less than that of its kernels, as in every
    prediction.
    """
    found = next(spreads[key] for key in keys(each, metric) if key in spreads)
    lone = each.engine.profile == UNKNOWN or each.row.mode in LIKE
    return max(found * (LONE if lone else 1.0), _of_kernels(each.row.case, metric))


@cache
def _of_kernels(case: Case, metric: str) -> float:
    """Log standard deviation of a step's kernels on a device without measured ones; 0 of others."""
    where = deployment(case)
    if known(where.node.gpu):
        return 0.0
    doubt = step_uncertainty(where, **TYPICAL, misses={})
    return doubt.prefill_sd if metric == "ttft_s" else doubt.decode_sd
