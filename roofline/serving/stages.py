"""A step priced stage by stage of its pipeline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.ffn_pool import transfers
from roofline.cost.layout import Stage, pipeline
from roofline.cost.measured import Measured
from roofline.cost.roof import CHOSEN, Parts, Time, measured_each, parts, roofed
from roofline.cost.step import Group, feed_forward, steps
from roofline.cost.work import COMBINE, DISPATCH, Number, Op, anywhere


@dataclass(frozen=True, slots=True)
class Priced:
    """A stage of a step."""

    deployment: Deployment
    stage: Stage
    """Deployment, and the layers that the stage has."""
    ops: Mapping[str, tuple[Op, Time]]
    """Operators by name, with what each limit takes of all executions."""
    parts: Parts
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


@dataclass(frozen=True, slots=True)
class LaidStage:
    """Operators of a stage, before they are priced."""

    deployment: Deployment
    """Devices that run it: those of the replica, or of its feed-forward pool."""
    stage: Stage
    ops: Mapping[str, Op]
    """Layers that it has, and operators by name."""


@dataclass(frozen=True, slots=True)
class LaidOut:
    """Operators of a step on the stages of a pipeline, before they are priced."""

    deployment: Deployment
    """Deployment of all stages."""
    stages: tuple[LaidStage, ...]
    """Different stages."""
    order: tuple[int, ...]
    """Place among these of each stage of the pipeline."""

    @property
    def ops(self) -> list[Op]:
        """Operators of all different stages, one after the other."""
        return [op for stage in self.stages for op in stage.ops.values()]

    def seconds(self, wanted: Callable[[Op], bool]) -> list[Number]:
        """Time of some operators of every stage, in order; the others are not priced. [s]"""
        return [stage.seconds() for stage in self.some(wanted).priced()]

    def some(self, wanted: Callable[[Op], bool]) -> "LaidOut":
        """The step with some of its operators."""
        stages = (
            replace(each, ops={name: op for name, op in each.ops.items() if wanted(op)})
            for each in self.stages
        )
        return replace(self, stages=tuple(stages))

    def priced(self, known: Sequence[Measured | None] | None = None) -> tuple[Priced, ...]:
        """Price every stage, in order; equal stages are priced once.

        What measurements say of `ops`, each of one execution, may be known; else the calibration is
        asked. MissingRateError where the device lacks the arithmetic.
        """
        told = iter(measured([self]) if known is None else known)
        each = [_price(stage, told) for stage in self.stages]
        return tuple(each[place] for place in self.order)


def measured(steps: Sequence[LaidOut]) -> list[Measured | None]:
    """Measurements of one execution of all operators of some steps of a deployment, in order."""
    stages = [stage for laid in steps for stage in laid.stages]
    told: dict[int, Iterator[Measured | None]] = {}
    for pool in {id(stage.deployment): stage.deployment for stage in stages}.values():
        mine = [op for stage in stages if stage.deployment is pool for op in stage.ops.values()]
        told[id(pool)] = iter(measured_each(mine, pool))
    return [next(told[id(stage.deployment)]) for stage in stages for _ in stage.ops]


def laid_out(deployment: Deployment, group: Group | Sequence[Group]) -> LaidOut:
    """Operators of a step on every stage: of a micro-batch, or of the groups of a mixed one.

    Numbers of a group may be arrays over the scenario axis.
    """
    if deployment.ffn is not None:
        return _to_and_fro(deployment, [group] if isinstance(group, Group) else group)
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
    laid = (LaidStage(deployment, *each) for each in zip(different.values(), made, strict=True))
    return LaidOut(deployment, tuple(laid), tuple(places[key] for key in keys))


def _exchanging(deployment: Deployment, stage: Stage, ops: Mapping[str, Op]) -> LaidOut:
    """Stages of a step whose micro-batches exchange tokens while the other one computes.

    Source: DeepSeek-AI 2024 (arXiv 2412.19437), sections 3.4.1 and 3.4.2: two micro-batches.
    """
    moved = {name: op for name, op in ops.items() if op.kernel in (DISPATCH, COMBINE)}
    rest = {name: op for name, op in ops.items() if name not in moved}
    stages = (LaidStage(deployment, stage, rest), LaidStage(deployment, stage, moved))
    return LaidOut(deployment, stages, (0, 1))


def _to_and_fro(deployment: Deployment, groups: Sequence[Group]) -> LaidOut:
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
        LaidStage(deployment, whole, attention),
        LaidStage(deployment, layers, there),
        LaidStage(feeding, layers, feed_forward(feeding, tokens)),
        LaidStage(feeding, layers, back),
    )
    return LaidOut(deployment, stages, (0, 1, 2, 3))


def through(deployment: Deployment, group: Group | Sequence[Group]) -> tuple[Priced, ...]:
    """Price a step on every stage, in order: `laid_out` and priced at once."""
    return laid_out(deployment, group).priced()


def _price(laid: LaidStage, known: Iterator[Measured | None]) -> Priced:
    deployment = laid.deployment
    gpu, gains = deployment.node.gpu, deployment.kernel_gains
    timed = {
        name: (op, roofed(op, gpu, float(op.repeat), next(known), gains))
        for name, op in laid.ops.items()
    }
    return Priced(deployment, laid.stage, timed, parts(timed.values()))


def slowest_number(seconds: Sequence[float]) -> int:
    """Place of the stage that takes longest; the first of equals. [1]"""
    return max(range(len(seconds)), key=lambda place: seconds[place])


def slowest(stages: Sequence[Priced]) -> Priced:
    """The stage that takes longest, on average over the scenario axis; the first of equals."""
    return max(stages, key=lambda stage: float(np.mean(stage.seconds())))
