"""Steps priced stage by stage of a pipeline, over grids too; time of batches that pass through.

A batch is cut into micro-batches that follow one another; a stage works on one at a time. Stages
need not be equal: the slowest sets the pace.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.calibration.remembered import CachedCalibration, price_many
from roofline.cost.deployment import Deployment
from roofline.cost.ffn_pool import transfers
from roofline.cost.kernels.form import longest
from roofline.cost.layout import Stage, pipeline
from roofline.cost.measured import MeasuredTime
from roofline.cost.roof import BOUNDS, CHOSEN, StepTime, Time, measured_each, parts, roofed
from roofline.cost.step import SequenceGroup, feed_forward, steps
from roofline.cost.work import COMBINE, DISPATCH, Array, Number, Op, anywhere, chosen, plus
from roofline.errors import RooflineError
from roofline.records import replace


def fill(stages: Sequence[Number]) -> Number:
    """Time from the start of a micro-batch to its end, with nobody in the way. [s]

    Source: the sum of the stages; a pipeline with one micro-batch is serial.

    Args:
        stages: Time of each stage, with what it sends on. [s]
    """
    return reduce(add, stages)


def pace(stages: Sequence[Number]) -> Number:
    """Time from the end of one micro-batch to that of the next. [s]

    Source: the slowest stage.

    Args:
        stages: Time of each stage, with what it sends on. [s]
    """
    slowest: Number = reduce(np.maximum, stages)
    return slowest


def finish(stages: Sequence[Number], number: Number) -> Number:
    """Time until the last of some equal micro-batches is done. [s]

    fill + (m − 1) · pace. With p equal stages it is (m + p − 1) stages: a bubble of (p − 1)/m of
    the ideal time. Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2; flow shop of
    equal jobs for stages that differ.

    Args:
        stages: Time of each stage, with what it sends on. [s]
        number: Micro-batches, one after the other. [1]

    Examples:
        >>> float(finish([1.0, 1.0, 1.0, 1.0], 8)) / 8 - 1
        0.375
    """
    return fill(stages) + (number - 1.0) * pace(stages)


def finish_with(stages: Sequence[Number], number: Number, last: Sequence[Number]) -> Number:
    """Time until a smaller micro-batch after some equal ones is done. [s]

    At each stage it waits for itself from the stage before and for the one ahead.
    Source: recursion of the flow shop, C(j, s) = max(C(j, s − 1), C(j − 1, s)) + t(s).

    Args:
        stages, last: Time of each stage, for the equal ones and for the last one. [s]
        number: Equal micro-batches before it. [1]

    Examples:
        Two of (2, 1), then one of (1, 1): 2, 4, 5 after the first stage, 3, 5, 6 after the second:

        >>> float(finish_with([2.0, 1.0], 2, [1.0, 1.0]))
        6.0
    """
    done: Number = 0.0
    for stage, each in enumerate(last):
        ahead = np.where(np.asarray(number) > 0, finish(stages[: stage + 1], number), 0.0)[()]
        done = np.maximum(done, ahead) + each
    return done


def period(stages: Sequence[Number], number: Number) -> Number:
    """Time between two tokens of a sequence while some micro-batches take turns. [s]

    A sequence's next token starts when its last one is out, and waits its turn: the larger of fill
    and m · pace. Source: cyclic flow shop of equal jobs.

    Args:
        stages: Time of each stage for one micro-batch, with what it sends on. [s]
        number: Micro-batches m. [1]

    Examples:
        >>> [float(period([1.0, 2.0], number)) for number in (1, 2)]
        [3.0, 4.0]
    """
    return np.maximum(fill(stages), number * pace(stages))


class PricedStage(Struct, frozen=True):
    """A stage of a step."""

    deployment: Deployment
    stage: Stage
    """Deployment, and the layers that the stage has."""
    ops: Mapping[str, tuple[Op, Time]]
    """Operators by name, with what each limit takes of all executions."""
    parts: StepTime
    """Their time by what can be hidden behind what."""

    def seconds(self, serial: bool = False) -> Number:
        """Time of the stage, or what it would be if nothing overlapped. [s]"""
        return self.parts.serial if serial else self.parts.seconds(self.deployment)

    def exposed(self, op: Op, time: Time) -> Number:
        """Time of an operator without its share of what is hidden behind others. [s]"""
        wire, host = self.parts.hidden(self.deployment)
        hidden, whole = {
            "collective": (wire, self.parts.wire),
            "host": (host, self.parts.host),
        }.get(op.kind, (0.0, 1.0))
        if not anywhere(hidden) or op.algorithm == CHOSEN:
            return time.seconds
        shown: Number = time.seconds * (1.0 - hidden / np.maximum(whole, 1e-300))
        return shown


class StageOperators(Struct, frozen=True):
    """Operators of a stage, before they are priced."""

    deployment: Deployment
    """Devices that run it: those of the replica, or of its feed-forward pool."""
    stage: Stage
    ops: Mapping[str, Op]
    """Layers that it has, and operators by name."""


class PipelineOperators(Struct, frozen=True):
    """Operators of a step on the stages of a pipeline, before they are priced."""

    deployment: Deployment
    """Deployment of all stages."""
    stages: tuple[StageOperators, ...]
    """Different stages."""
    order: tuple[int, ...]
    """Place among these of each stage of the pipeline."""

    @property
    def ops(self) -> list[Op]:
        """Operators of all different stages, one after the other."""
        return [op for stage in self.stages for op in stage.ops.values()]

    def some(self, wanted: Callable[[Op], bool]) -> "PipelineOperators":
        """The step with some of its operators."""
        stages = (
            replace(each, ops={name: op for name, op in each.ops.items() if wanted(op)})
            for each in self.stages
        )
        return replace(self, stages=tuple(stages))

    def priced(self, known: Sequence[MeasuredTime | None] | None = None) -> tuple[PricedStage, ...]:
        """Price every stage, in order; equal stages are priced once.

        What measurements say of `ops`, each of one execution, may be known; else the calibration is
        asked. MissingRateError where the device lacks the arithmetic.
        """
        told = iter(measured([self]) if known is None else known)
        each = [_price(stage, told) for stage in self.stages]
        return tuple(each[place] for place in self.order)


def measured(steps: Sequence[PipelineOperators]) -> list[MeasuredTime | None]:
    """Measurements of one execution of all operators of some steps, in order."""
    stages = [stage for laid in steps for stage in laid.stages]
    kinds: dict[tuple[int, int], list[StageOperators]] = {}
    for stage in stages:
        kinds.setdefault(_kernels_of(stage), []).append(stage)
    told = {
        kind: iter(
            measured_each([op for stage in some for op in stage.ops.values()], some[0].deployment)
        )
        for kind, some in kinds.items()
    }
    return [next(told[_kernels_of(stage)]) for stage in stages for _ in stage.ops]


def _kernels_of(stage: "StageOperators") -> tuple[int, int]:
    """Key of the device and of the calibration that a stage's kernels are looked up in."""
    return id(stage.deployment.calibration), id(stage.deployment.node.gpu)


def seconds_of(steps: Sequence[PipelineOperators]) -> list[list[Number]]:
    """Times of every stage of some steps, whose kernels are looked up at once. [s]"""
    known = iter(measured(steps))
    priced = (laid.priced([next(known) for _ in laid.ops]) for laid in steps)
    return [[stage.seconds() for stage in each] for each in priced]


def laid_out(
    deployment: Deployment, group: SequenceGroup | Sequence[SequenceGroup]
) -> PipelineOperators:
    """Operators of a step on every stage: of a micro-batch, or of the groups of a mixed one.

    Numbers of a group may be arrays over the scenario axis.
    """
    if deployment.ffn is not None:
        return _to_and_fro(deployment, [group] if isinstance(group, SequenceGroup) else group)
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    keys = [
        (stage.layers, stage.first, stage.last, np.asarray(stage.crosses).tobytes())
        for stage in stages
    ]
    different = dict(zip(keys, stages, strict=True))
    places = {key: place for place, key in enumerate(different)}
    made = steps(deployment, group, list(different.values()))
    if deployment.exchanges:
        return _exchanging(deployment, stages[0], made[0])
    laid = (
        StageOperators(deployment, *each) for each in zip(different.values(), made, strict=True)
    )
    return PipelineOperators(deployment, tuple(laid), tuple(places[key] for key in keys))


def _exchanging(deployment: Deployment, stage: Stage, ops: Mapping[str, Op]) -> PipelineOperators:
    """Stages of a step whose micro-batches exchange tokens while the other one computes.

    Source: DeepSeek-AI 2024 (arXiv 2412.19437), sections 3.4.1 and 3.4.2: two micro-batches.
    """
    moved = {name: op for name, op in ops.items() if op.kernel in (DISPATCH, COMBINE)}
    rest = {name: op for name, op in ops.items() if name not in moved}
    stages = (StageOperators(deployment, stage, rest), StageOperators(deployment, stage, moved))
    return PipelineOperators(deployment, stages, (0, 1))


def _to_and_fro(deployment: Deployment, groups: Sequence[SequenceGroup]) -> PipelineOperators:
    """Stages of a step whose micro-batches visit two pools once for each layer.

    All layers of a pool are one stage, and so are all transfers one way: for layers that are alike
    the period of L visits of a cyclic flow shop is that of one visit L times as long.
    """
    pool = deployment.ffn
    assert pool is not None, "one pool has no way to go"
    feeding, whole = (
        pool.deployment,
        Stage(tuple(deployment.architecture.kinds.items()), True, True),
    )
    layers = Stage(tuple(feeding.architecture.kinds.items()), first=False, last=False)
    mine: Number = 0.0
    tokens: Number = 0.0
    for each in groups:
        mine = mine + np.ceil(each.count / deployment.layout.dp) * each.new
        tokens = tokens + each.count * each.new
    there, back = (
        {f"{op.name}-{n}" if n else op.name: op for n, op in enumerate(ops)}
        for ops in transfers(deployment, mine, tokens)
    )
    (attention,) = steps(deployment, groups, [whole])
    stages = (
        StageOperators(deployment, whole, attention),
        StageOperators(deployment, layers, there),
        StageOperators(feeding, layers, feed_forward(feeding, tokens)),
        StageOperators(feeding, layers, back),
    )
    return PipelineOperators(deployment, stages, (0, 1, 2, 3))


def price_step(
    deployment: Deployment, group: SequenceGroup | Sequence[SequenceGroup]
) -> tuple[PricedStage, ...]:
    """Price a step on every stage, in order: `laid_out` and priced at once."""
    return laid_out(deployment, group).priced()


def _price(laid: StageOperators, known: Iterator[MeasuredTime | None]) -> PricedStage:
    deployment = laid.deployment
    gpu, gains = deployment.node.gpu, deployment.kernel_gains
    timed = {
        name: (op, roofed(op, gpu, float(op.repeat), next(known), gains))
        for name, op in laid.ops.items()
    }
    return PricedStage(deployment, laid.stage, timed, parts(timed.values()))


def slowest_number(seconds: Sequence[float]) -> int:
    """Place of the stage that takes longest; the first of equals. [1]"""
    return max(range(len(seconds)), key=lambda place: seconds[place])


def slowest(stages: Sequence[PricedStage]) -> PricedStage:
    """The stage that takes longest, on average over the scenario axis; the first of equals."""
    return max(stages, key=lambda stage: float(np.mean(stage.seconds())))


@dataclass(eq=False)
class GridStep:
    """Step over a grid, priced when it is first asked about."""

    laid: PipelineOperators
    """Its operators on the stages of a pipeline."""
    shape: tuple[int, ...]
    """Rows and columns of the grid; empty for one step."""
    known: Sequence[MeasuredTime | None] | None = None
    """Measured times of the operators; None where they were not looked up yet."""

    @cached_property
    def stages(self) -> tuple[PricedStage, ...]:
        """Stages of the pipeline in order, with numbers that broadcast to the grid."""
        return self.laid.priced(self.known)

    @cached_property
    def different(self) -> tuple[PricedStage, ...]:
        """Stages, of equal ones the first."""
        return tuple({id(stage): stage for stage in self.stages}.values())

    def wide(self, value: Number) -> Array:
        """A number at each place of the grid."""
        return np.broadcast_to(np.asarray(value, np.float64), self.shape)

    def seconds(self, *, serial: bool = False) -> list[Number]:
        """Time of the kernels of each stage, or what it would be if nothing overlapped. [s]"""
        each = {id(stage): stage.seconds(serial) for stage in self.different}
        return [each[id(stage)] for stage in self.stages]

    def of_slowest(self, value: Callable[[PricedStage], Number]) -> Array:
        """A number of the stage that takes longest; of equals the first."""
        values = [value(stage) for stage in self.different]
        return self.wide(values[0] if len(values) == 1 else chosen(self._slowest, values))

    @cached_property
    def _slowest(self) -> NDArray[np.intp]:
        """Place among the different stages of the one that takes longest."""
        return longest(*(stage.seconds() for stage in self.different))

    def bound_times(self) -> list[Array]:
        """Time of the slowest stage by what binds it, one entry for each of `BOUNDS`. [s]"""
        each = {id(stage): _bound_times(stage) for stage in self.different}

        def limit(place: int) -> Array:
            return self.of_slowest(lambda stage: each[id(stage)][place])

        return [limit(place) for place in range(len(BOUNDS))]


def _bound_times(stage: PricedStage) -> list[Number]:
    """Time of a stage by what binds its operators, one entry for each `BOUNDS`. [s]"""
    out: list[Number] = [0.0] * len(BOUNDS)
    hides = any(map(anywhere, stage.parts.hidden(stage.deployment)))
    for op, time in stage.ops.values():
        took = stage.exposed(op, time) if hides else time.seconds
        limits = (time.compute, time.memory, time.wire, time.host)
        there = [n for n, each in enumerate(limits) if not (isinstance(each, float) and each == 0)]
        if len(there) <= 1:
            for place in there or [0]:
                out[place] = plus(out[place], took)
            continue
        binds = longest(*(limits[each] for each in there))
        for number, place in enumerate(there):
            out[place] = plus(out[place], took * (binds == number))
    return out


def grid_step(deployment: Deployment, count: Number, new: Number, context: Number) -> GridStep:
    """Operators of a step over a grid.

    Args:
        deployment: What runs; the degrees of its layout may be a column of the grid.
        count, new, context: As of `SequenceGroup`: numbers, or arrays of shape (rows, 1),
            (1, columns) or both.
    """
    numbers = (count, new, context, deployment.layout.tp)
    shape = np.broadcast_shapes(*map(np.shape, numbers))
    return GridStep(laid_out(deployment, SequenceGroup(count, new, context)), shape)


def remembering(deployment: Deployment) -> Deployment:
    """The deployment with kernels that are priced once, on the axes that they depend on."""
    known, pool = deployment.calibration, deployment.ffn
    if pool is not None:
        fed = replace(pool, deployment=remembering(pool.deployment))
        deployment = replace(deployment, ffn=fed)
    if known is None or isinstance(known, CachedCalibration):
        return deployment
    return replace(deployment, calibration=CachedCalibration(known, deployment.node.gpu))


def ask_together(steps: Sequence[GridStep]) -> None:
    """Ask the calibrations of several steps about all of their operators at once.

    Steps of a device that lacks the arithmetic are left as they were.
    """
    asked: list[tuple[CachedCalibration, Op]] = []
    waiting: list[tuple[GridStep, int]] = []
    for each in steps:
        known = [stage.deployment.calibration for stage in each.laid.stages]
        if each.known is None and all(isinstance(one, CachedCalibration) for one in known):
            for one, stage in zip(known, each.laid.stages, strict=True):
                assert isinstance(one, CachedCalibration), "checked above"
                asked += [(one, op) for op in stage.ops.values()]
            waiting.append((each, len(asked)))
    told, start = price_many(asked), 0
    for each, end in waiting:
        found = [price for price in told[start:end] if not isinstance(price, RooflineError)]
        each.known = found if len(found) == end - start else None
        start = end


def wires(step: GridStep) -> Number:
    """Share of the time of all stages that collectives take. [1]"""
    wired: Number = sum((stage.parts.wire for stage in step.stages), 0.0)
    whole: Number = sum(step.seconds(), 0.0)
    return wired / whole
