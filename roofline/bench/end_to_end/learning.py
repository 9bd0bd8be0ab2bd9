"""Constants of an engine learnt from a user's own runs, shrunk towards the shipped ones.

The shipped profile is what is believed before, with three times the width that a constant had
before any row: hosts and settings differ by more than releases do. A few runs move it little, many
runs all the way. Runs of one deployment share what the model lacks for it; where there is but one,
that goes into the constants, which then hold for that deployment.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.end_to_end import held_out, profiles
from roofline.bench.end_to_end.engines import CONSTANTS
from roofline.bench.end_to_end.fitting import (
    LinearModel,
    MeasuredCells,
    best,
    cells,
    linear,
    priors,
    residuals,
    residuals_at,
    some,
    steps,
)
from roofline.bench.end_to_end.held_out import CENTRAL, DEVIATIONS, FLOOR, Key, Spreads
from roofline.bench.end_to_end.metrics import PLACE, Predictable
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.hardware.serving_engine import Engine
from roofline.records import replace

Integers = NDArray[np.int64]

FEWEST: Final = 3
"""Runs that a held-out error needs. [1]"""
WIDER: Final = 3.0
"""Width of what is believed of a constant over that before any row. Assumed. [1]"""
SEVERAL: Final = 3
"""Deployments from which on one of them is held out at a time, and not a run. [1]"""
MOST_FOLDS: Final = 10
ENOUGH: Final = 12
"""Figures whose spread counts as much as what is shipped. Assumed. [1]"""
MOST_STEPS: Final = 6
"""Steps of a search; fewer where none fits better. [1]"""
FEW_RUNS: Final = 6
"""Runs up to which each step has derivatives of its own. [1]"""


class ConstantChange(Struct, frozen=True):
    """A constant before and after."""

    name: str
    unit: str
    meaning: str
    """Name, unit and meaning in `roofline.bench.end_to_end.engines.CONSTANTS`."""
    before: float
    after: float
    """Shipped, and learnt."""
    low: float
    high: float
    """Central 80 % of what it may be now."""
    learnt: float
    """Share of what was not known before that the runs told: 0 where it stays as shipped. [1]"""


class MedianErrors(Struct, frozen=True):
    """Median absolute errors of a metric."""

    metric: str
    """Metric of the rows, by name."""
    figures: int
    """Figures that were scored. [1]"""
    shipped: float
    held: float
    fitted: float
    """By the shipped constants, by those learnt from other runs, by those learnt from all. [1]"""


class LearntConstants(Struct, frozen=True):
    """Constants of an engine after a user's runs."""

    engine: Engine
    """Its profile."""
    runs: int
    deployments: int
    """Runs, and the deployments that they are of. [1]"""
    apart: str
    """Unit that was held out at a time: ``"run"`` or ``"deployment"``."""
    moved: tuple[ConstantChange, ...]
    scores: tuple[MedianErrors, ...]
    """Each constant, and each metric; the last score is of all figures."""
    logs: Array
    sd: Array
    """Logarithms of all constants and their standard deviations."""
    spreads: Spreads
    """Spreads of the runs' metrics, shrunk towards those shipped."""

    @property
    def better(self) -> bool:
        """Whether held-out runs are predicted better than by the shipped constants."""
        return self.scores[-1].held < self.scores[-1].shipped


def constants_of(rows: Sequence[PreparedRow]) -> Array:
    """Logarithms of all constants, those of an engine learnt from runs of its profile."""
    return _fitted(_task(rows))[0]


def learn(rows: Sequence[PreparedRow]) -> LearntConstants:
    """Constants of an engine, learnt from runs of its profile.

    Raises:
        InputError: There are too few of them, or of several engines.
    """
    names = sorted({each.engine.profile for each in rows})
    if len(names) > 1:
        raise InputError(
            f"the runs are of several engines: {', '.join(names)}",
            hint="learn from one of them at a time",
        )
    if len(rows) < FEWEST:
        raise InputError(
            f"{len(rows)} runs are too few to learn from", hint=f"give {FEWEST} or more"
        )
    task = _task(rows)
    label, apart = _labels(rows)
    found, held = learn_task(task, rows[0].engine, label[task.has.row], apart)
    return replace(
        found,
        runs=len(rows),
        deployments=len({each.group for each in rows}),
        spreads=_spreads(rows, task.has, held),
    )


def learn_task(
    task: "LearningTask", engine: Engine, label: Integers, apart: str, kinds: Sequence[str] = ()
) -> tuple[LearntConstants, Array]:
    """Constants learnt from some cells, and the residual of each by constants without its kind.

    Args:
        task: The cells, and what is believed before.
        engine: Whose they are.
        label: Number of what each cell is held out with. [1]
        apart: What such cells have in common, as `LearntConstants` has it.
        kinds: What each cell is scored as; its metric where none are given.
    """
    logs, covariance = _fitted(task)
    held = _held(task, label)
    sd = np.sqrt(np.diag(covariance))
    fitted = residuals(task.rows, task.has, logs)
    learnt = LearntConstants(
        engine=engine,
        runs=len(label),
        deployments=1,
        apart=apart,
        moved=tuple(_moved(task, engine, logs, sd)),
        scores=tuple(_scores(task, held, fitted, kinds or task.has.metric)),
        logs=logs,
        sd=sd,
        spreads={},
    )
    return learnt, held


class LearningTask(Struct, frozen=True):
    """Measurements, their cells, what is believed before, and how far off that is."""

    rows: Sequence[Predictable]
    has: MeasuredCells
    near: LinearModel
    believed: tuple[Array, Array]
    constants: tuple[str, ...]
    """Names of the constants that the cells may move."""


def _task(rows: Sequence[PreparedRow]) -> LearningTask:
    has = cells(rows)
    if len({each.group for each in rows}) == 1:
        has = replace(has, group_sd=np.zeros(len(has.group_sd)))
    return task_of(rows, has, tuple(CONSTANTS))


def task_of(
    rows: Sequence[Predictable], has: MeasuredCells, constants: tuple[str, ...]
) -> LearningTask:
    """Cells of some measurements around the shipped constants, of which some may move."""
    start, _ = profiles.load()
    near = linear(rows, has, start, constants)
    return LearningTask(rows, has, near, (start, WIDER * priors()[1]), constants)


def _fitted(task: LearningTask, which: NDArray[np.bool_] | None = None) -> tuple[Array, Array]:
    """Constants from some of the cells, or all; a step begins where the one before it ended.

    Derivatives of many runs are taken again only where those of before lead no further.
    """
    which = np.ones(len(task.has.row), dtype=np.bool_) if which is None else which
    (rows, has), old = _some(task, which), False
    near = LinearModel(task.near.start, task.near.at[which], task.near.slopes[which])
    covariance = np.zeros(0)
    for _ in range(MOST_STEPS):
        tried, covariance = steps(has, near, task.believed)
        logs, at = best(
            has, near, tried, lambda tried: residuals_at(rows, has, tried), task.believed
        )
        if logs is not near.start and len(rows) > FEW_RUNS:
            near, old = LinearModel(logs, at, near.slopes), True
        elif logs is not near.start or old:
            near, old = linear(rows, has, logs, task.constants), False
        else:
            break
    return near.start, covariance


def _some(task: LearningTask, which: NDArray[np.bool_]) -> tuple[list[Predictable], MeasuredCells]:
    """Some of the cells, and the runs that have them."""
    has = some(task.has, which)
    places, row = np.unique(has.row, return_inverse=True)
    return [task.rows[place] for place in places], replace(has, row=row)


def _labels(rows: Sequence[PreparedRow]) -> tuple[Integers, str]:
    """Number of what each row is held out with, and what that is."""
    groups = list(dict.fromkeys(each.group for each in rows))
    if len(groups) >= SEVERAL:
        return np.array([groups.index(each.group) for each in rows]), "deployment"
    return np.arange(len(rows)), "run"


def _held(task: LearningTask, label: Integers) -> Array:
    """Residuals of each cell by constants that did not see those of its label."""
    fold = label % MOST_FOLDS
    out = np.zeros(len(fold))
    for scored in np.unique(fold):
        mine = fold == scored
        logs, _ = _fitted(task, ~mine)
        out[mine] = residuals(*_some(task, mine), logs)
    return out


def _moved(task: LearningTask, engine: Engine, after: Array, sd: Array) -> list[ConstantChange]:
    before, out = task.near.start, []
    for name in task.constants:
        known = CONSTANTS[name]
        place = PLACE[f"{engine.profile}.{name}"]
        width = task.believed[1][place]
        ends = [float(np.exp(after[place] + side * DEVIATIONS * sd[place])) for side in (-1.0, 1.0)]
        out.append(
            ConstantChange(
                name,
                known.unit,
                known.meaning,
                float(np.exp(before[place])),
                float(np.exp(after[place])),
                ends[0],
                ends[1],
                max(1.0 - float(sd[place] / width) ** 2, 0.0),
            )
        )
    return out


def _scores(
    task: LearningTask, held: Array, fitted: Array, kinds: Sequence[str]
) -> list[MedianErrors]:
    names = list(dict.fromkeys(kinds))
    metric = np.array(kinds)
    out = []
    for name in [*names, "all"]:
        mine = np.ones(len(metric), dtype=np.bool_) if name == "all" else metric == name
        missed = (each[mine] for each in (task.near.at, held, fitted))
        off = [float(np.median(np.abs(np.expm1(each)))) for each in missed]
        out.append(MedianErrors(name, int(mine.sum()), *off))
    return out


def _spreads(rows: Sequence[PreparedRow], has: MeasuredCells, missed: Array) -> Spreads:
    """Spreads of held-out figures, as if `ENOUGH` more were as shipped."""
    _, shipped = profiles.load()
    found: dict[Key, list[float]] = {}
    before: dict[Key, float] = {}
    for cell, (row, metric) in enumerate(zip(has.row, has.metric, strict=True)):
        *own, _, _, _ = held_out.keys(rows[row], metric)
        for key in own:
            found.setdefault(key, []).append(abs(float(missed[cell])))
            before[key] = held_out.of(shipped, rows[row], metric)
    return {key: shrunk(each, before[key]) for key, each in found.items()}


def shrunk(missed: Sequence[float], before: float) -> float:
    """Spread of absolute residuals, as if `ENOUGH` more were as shipped. [1]"""
    own = float(np.quantile(missed, CENTRAL)) / DEVIATIONS
    whole = (ENOUGH * before**2 + len(missed) * own**2) / (ENOUGH + len(missed))
    return max(float(np.sqrt(whole)), FLOOR)
