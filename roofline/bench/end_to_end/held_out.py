"""Predictions of networks by constants that were fitted without them, and their spread."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.end_to_end.fitting import (
    Cells,
    Linear,
    cells,
    improved,
    linear,
    some,
)
from roofline.bench.end_to_end.metrics import predictions_at
from roofline.bench.end_to_end.replay import Known
from roofline.bench.engine_profiles import spread_keys
from roofline.cost.work import Array
from roofline.hardware.serving_engine import UNKNOWN

Integers = NDArray[np.int64]
FOLDS: Final = 10
ENOUGH: Final = 12
"""Cells that a spread of its own needs."""
DEVIATIONS: Final = 1.2815515655446004
"""Standard deviations from the median of a normal variable to its 90th percentile."""
CENTRAL: Final = 0.8
FLOOR: Final = 0.02
"""Least spread of a prediction. [1]"""
LONE: Final = 1.3
"""Factor on the spread of a profile, or of a mode, with no rows. Assumed."""

LIKE: Final = {"steady_rate": "steady_concurrency"}
"""Modes of which no row was measured, and the one whose spread they take, wider."""

Key = tuple[str, ...]
Spreads = Mapping[Key, float]


def folds(rows: Sequence[Known], number: int = FOLDS) -> Integers:
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
    rows: Sequence[Known], fits: NDArray[np.bool_] | None = None, near: Linear | None = None
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
    has: Cells,
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


def keys(each: Known, metric: str) -> tuple[Key, ...]:
    """Keys that the spread of a metric of a row may be looked up by, the closest first."""
    mode = LIKE.get(each.row.mode, each.row.mode)
    return spread_keys(each.engine.profile, mode, metric, each.kind)


def spread(rows: Sequence[Known], has: Cells, missed: Array) -> Spreads:
    """Log standard deviation by engine, mode, metric and kind of network, as far as rows go.

    So that the central 80 % of a lognormal holds the next residual with that chance: of n residuals
    the ⌈0.8 (n + 1)⌉-th, as of split conformal prediction (Lei et al., 2018).
    """
    found: dict[Key, list[float]] = {}
    for cell, (row, metric) in enumerate(zip(has.row, has.metric, strict=True)):
        for key in keys(rows[row], metric):
            found.setdefault(key, []).append(abs(float(missed[cell])))
    return {
        key: max(
            sorted(each)[min(math.ceil(CENTRAL * (len(each) + 1)), len(each)) - 1] / DEVIATIONS,
            FLOOR,
        )
        for key, each in found.items()
        if len(each) >= ENOUGH or not key
    }


def of(spreads: Spreads, each: Known, metric: str) -> float:
    """Spread of a metric of a row; wider for an engine or a mode that no row was measured of."""
    found = next(spreads[key] for key in keys(each, metric) if key in spreads)
    lone = each.engine.profile == UNKNOWN or each.row.mode in LIKE
    return found * (LONE if lone else 1.0)
