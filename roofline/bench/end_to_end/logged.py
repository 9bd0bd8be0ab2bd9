"""Constants of an engine learnt from the steps that its own log tells of.

A log has the mean time of a step, the sequences in it, the tokens in the cache and those of prompts
that came meanwhile. Steps of about the same content are one cell, whose time is compared with the
price of such a step (`roofline.serving.simulate.mean_step`); the constants that steps are made of
are then fitted as runs fit them (`roofline.bench.end_to_end.learning`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.fitting import GROUP_SD, MeasuredCells
from roofline.bench.end_to_end.learning import (
    Integers,
    LearningTask,
    LearntConstants,
    learn_task,
    shrunk,
    task_of,
)
from roofline.bench.end_to_end.metrics import PLACE
from roofline.bench.end_to_end.replay import PreparedRow, with_profile
from roofline.bench.engine_profiles import CLOSED, spread_keys
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineProfile, LoggedRange
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.hardware.serving_engine import Engine
from roofline.records import replace
from roofline.serving.logged_step import LoggedStep
from roofline.serving.simulate.dense import dense
from roofline.serving.simulate.mean_step import SteadyLoad, mean_step_s
from roofline.serving.simulate.prices import StepPrices, step_prices

MOVING: Final = ("decode_gain", "step_s", "sequence_s", "prefill_gain", "prefill_s")
"""Constants of the time of a step, the only ones that a log can teach."""
FEWEST_CELLS: Final = 3
"""Fewest cells that can be learnt from. [1]"""
MOST_CELLS: Final = 200
"""Most cells of a fit: those with the most steps are taken. [1]"""
LEVELS: Final = 3
"""Fewest octaves of the batch to hold out one at a time; with fewer, thirds of the log are. [1]"""
FLOOR: Final = 0.01
"""Log standard deviation of a cell that is measured without noise: whole-forward fits are 1 to 2 %
off where they were fitted. Assumed. [1]"""
FEW_SD: Final = 0.03
"""Log standard deviation of the steps of a cell that has too few to say. Assumed. [1]"""
LEAST: Final = 0.00025
"""Share of the cache in use where a log shows 0.0 %: the middle of what rounds to it. [1]"""
NEAR: Final = 0.1
"""Log difference from the median of its cell up to which a step is kept. Assumed. [1]"""
ALIKE: Final = 10
"""Steps of a cell beyond which more of them do not make it surer: they come one after the other, of
one hour and one load. Assumed. [1]"""
PROMPTS_SD: Final = 0.15
"""Log standard deviation of the time that prompts take of a step: a log does not tell their sizes.
Assumed. [1]"""
PROMPTS: Final = 0.05
"""Share of a step from which on it is called one with prompts. [1]"""
BEYOND: Final = 0.14
"""Log standard deviation beyond the batches and contexts that were logged, at least: fits of whole
forwards are 14 % off there. [1]"""
OCTAVE: Final = "octave of the batch"
"""Name of the parts that are held out one at a time."""
SCALED_MAD: Final = 1.4826
"""Standard deviations of a normal variable in its median absolute deviation. [1]"""


class LoggedCell(Struct, frozen=True):
    """Means over steps of a log that have about the same content."""

    load: SteadyLoad
    """Mean content of a step."""
    seconds: float
    """Time of one. [s]"""
    steps: int
    """Number of steps. [1]"""
    scatter: float
    """Log standard deviation of their times. [1]"""
    doubt: float
    """Relative uncertainty of the tokens of prompts. [1]"""
    part: int
    """Third of the log that they are of. [1]"""


class LoggedSteps(Struct, frozen=True):
    """Cells of a log with what is needed to price them."""

    known: PreparedRow
    """Deployment and server."""
    cells: tuple[LoggedCell, ...]

    @property
    def engine(self) -> Engine:
        """Engine of the catalog, whose profile has its constants."""
        return self.known.engine

    @property
    def deployment(self) -> Deployment:
        """Deployment that wrote the log."""
        return self.known.deployment

    def prices(self, profile: EngineProfile) -> StepPrices:
        """Table of the prices of steps, with some constants of the engine."""
        priced = with_profile(self.deployment, profile)
        server = self.known.server
        return step_prices(
            self.deployment,
            sequences=max(server.max_sequences, self._most),
            longest=server.longest,
            engine=priced.engine_costs,
            gains=priced.kernel_gains,
        )

    def predicted_by(self, prices: StepPrices) -> Mapping[str, float]:
        """Mean step of each cell, by its number. [s]"""
        return {str(place): whole for place, (whole, _) in enumerate(self.parts(prices))}

    def parts(self, prices: StepPrices) -> list[tuple[float, float]]:
        """Mean time of a step of each cell, and the part of it that prompts take. [s]"""
        server, groups = self.known.server, int(self.deployment.layout.dp)
        table = dense(prices, self._most + 1, server)
        return [
            mean_step_s(
                table,
                each.load,
                window=prices.window,
                groups=groups,
                decode_first=server.first == "decode",
            )
            for each in self.cells
        ]

    @property
    def _most(self) -> int:
        return max(int(np.ceil(max(each.load.batch for each in self.cells))), 2)


class LearntLog(Struct, frozen=True):
    """Constants of an engine that a log teaches, and their errors."""

    learnt: LearntConstants
    """Constants before and after, and errors."""
    steps: LoggedSteps
    shipped: Array
    held: Array
    """Cells; logarithms of predicted over logged by the shipped constants, and by constants that
    did not see their octave of the batch."""
    logged: LoggedRange
    """Loads that were logged, and errors of predictions there."""


def cells_of(
    told: Sequence[LoggedStep],
    known: PreparedRow,
    capacity: float,
    *,
    prompt: float = 0.0,
    output: float = 0.0,
) -> tuple[LoggedCell, ...]:
    """Cells of a log.

    Args:
        told: Its steps, in their order.
        known: Deployment and server.
        capacity: Tokens that the cache of one scheduler holds; NaN where the log does not say.
            [token]
        prompt, output: Mean lengths; 0 where nobody says them. [token]

    Raises:
        InputError: Nobody says what was in the cache.
    """
    groups = int(known.deployment.layout.dp)
    if capacity != capacity:
        capacity = known.server.kv_tokens / groups
    several = len({_octave(each.running) for each in told}) >= LEVELS
    together: dict[tuple[int, ...], list[LoggedStep]] = {}
    for place, each in enumerate(told):
        tokens = each.tokens if each.tokens == each.tokens else (each.usage or LEAST) * capacity
        if tokens != tokens and not prompt:
            raise InputError(
                "the log does not say how much of the cache is in use",
                hint="give the mean lengths: `given` prompt=1024,output=256",
            )
        if tokens != tokens:
            tokens = (prompt + output / 2.0) * each.running
        seen = max(tokens / each.running, 1.0)
        # Thirds of the log are told apart where loads are not.
        part = 0 if several else 3 * place // len(told)
        key = part, *(int(np.rint(x)) for x in (8 * np.log2(each.running), 2 * np.log2(seen)))
        together.setdefault(key, []).append(replace(each, tokens=tokens))
    most = sorted(together.items(), key=lambda pair: len(pair[1]), reverse=True)[:MOST_CELLS]
    return tuple(_cell(steps, key[0], known, prompt) for key, steps in sorted(most))


def _octave(batch: float) -> int:
    return int(np.rint(np.log2(batch)))


def _cell(steps: Sequence[LoggedStep], part: int, known: PreparedRow, prompt: float) -> LoggedCell:
    """Means over steps, outliers left out: now and then a line of the log has idle time in it.

    Time is a straight line of the tokens of prompts, which are told in lumps: of a prompt all are
    told at its end. So these are no reason to tell steps apart, and their mean counts.
    """
    times = np.log([each.seconds for each in steps])
    off = np.abs(times - np.median(times))
    scatter = SCALED_MAD * float(np.median(off))
    kept = [each for each, far in zip(steps, off, strict=True) if far <= max(3 * scatter, NEAR)]
    running, seconds, tokens, new, chunk, doubt, change, prompts = (
        float(np.mean([getattr(each, name) for each in kept]))
        for name in (
            *("running", "seconds", "tokens", "prompt_tokens", "chunk", "doubt", "running_sd"),
            "prompts",
        )
    )
    groups, server = int(known.deployment.layout.dp), known.server
    context = max(tokens / running, 1.0)
    whole = chunk or prompt or context
    room = server.token_budget / groups - running * (server.first == "decode")
    pieces = np.ceil(whole / room) if room > 0 else 1.0
    chunk, cached = whole / pieces, (1.0 - 1.0 / pieces) * whole / 2.0
    return LoggedCell(
        SteadyLoad(running * groups, context, new, chunk, prompts, cached),
        seconds,
        len(kept),
        float(np.hypot(scatter if len(kept) > 2 else max(scatter, FEW_SD), change)),
        doubt,
        part,
    )


def learn_log(steps: LoggedSteps) -> LearntLog:
    """Constants of an engine, learnt from the cells of its log.

    Raises:
        InputError: There are too few of them.
    """
    cells = steps.cells
    if len(cells) < FEWEST_CELLS:
        raise InputError(
            f"the log has steps of {len(cells)} kinds of load, too few to learn from",
            hint="log some minutes, at several numbers of clients; give several files if need be",
        )
    profile = profiles.profile_of(steps.engine)
    whole, prompts = np.array(steps.parts(steps.prices(profile))).T
    has = _measured(cells, prompts / whole)
    task = _of_one_deployment(task_of([steps], has, MOVING), steps.engine)
    label, apart = _labels(cells)
    kinds = ["step with prompts" if each else "decode step" for each in prompts > PROMPTS * whole]
    learnt, held = learn_task(task, steps.engine, label, apart, kinds)
    _, spreads = profiles.load()
    generation = steps.known.deployment.node.gpu.architecture
    keys = spread_keys(steps.engine, CLOSED, "tpot_s", generation)
    before = next(spreads[key] for key in keys if key in spreads)
    batch, context = (
        np.array([getattr(each.load, name) for each in cells]) for name in ("batch", "context")
    )
    ends = [(float(each.min()), float(each.max())) for each in (batch, context, batch * context)]
    logged = LoggedRange(
        batch=ends[0],
        context=ends[1],
        tokens=ends[2],
        log_sd=shrunk([abs(float(each)) for each in held], before),
    )
    learnt = replace(
        learnt, runs=sum(each.steps for each in cells), spreads={keys[0]: max(BEYOND, before)}
    )
    return LearntLog(learnt, steps, task.near.at, held, logged)


def _of_one_deployment(task: LearningTask, engine: Engine) -> LearningTask:
    """Task whose priors on kernels are wider, by the differences between deployments."""
    center, spread = task.believed
    wide = spread.copy()
    for name in ("decode_gain", "prefill_gain"):
        place = PLACE[f"{engine.profile}.{name}"]
        wide[place] = np.hypot(spread[place], GROUP_SD["tpot_s"])
    return replace(task, believed=(center, wide))


def _measured(cells: Sequence[LoggedCell], share: Array) -> MeasuredCells:
    """Measured times as cells of a fit, surer where prompts take less of them."""
    of_prompts = share * (PROMPTS_SD + np.array([each.doubt for each in cells]))
    of_mean = [each.scatter / np.sqrt(min(each.steps, ALIKE)) for each in cells]
    none = np.zeros(len(cells), dtype=np.int64)
    return MeasuredCells(
        row=none,
        metric=tuple(str(place) for place in range(len(cells))),
        measured=np.log([each.seconds for each in cells]),
        group=none,
        row_sd=np.sqrt(FLOOR**2 + np.square(of_mean) + of_prompts**2),
        group_sd=np.zeros(len(cells)),
    )


def _labels(cells: Sequence[LoggedCell]) -> tuple[Integers, str]:
    """Part that each cell is held out with: its octave of the batch, or its third of the log."""
    octaves = [_octave(each.load.batch) for each in cells]
    levels = sorted(set(octaves))
    if len(levels) >= LEVELS:
        return np.array([levels.index(each) for each in octaves]), OCTAVE
    parts = np.array([each.part for each in cells])
    if len(np.unique(parts)) == 1:  # octaves of single steps that are none of their means
        return np.arange(len(cells)), "kind of load"
    return parts, "third of the log"
