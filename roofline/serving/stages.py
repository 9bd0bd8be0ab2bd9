"""A step priced stage by stage of its pipeline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Stage, pipeline
from roofline.cost.measured import Measured
from roofline.cost.roof import CHOSEN, Parts, Time, measured_each, parts, roofed
from roofline.cost.step import Group, steps
from roofline.cost.work import Number, Op, anywhere


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
class LaidOut:
    """Operators of a step on the stages of a pipeline, before they are priced."""

    deployment: Deployment
    """Deployment of all stages."""
    stages: tuple[tuple[Stage, Mapping[str, Op]], ...]
    """Different stages, with their operators by name."""
    order: tuple[int, ...]
    """Place among these of each stage of the pipeline."""

    @property
    def ops(self) -> list[Op]:
        """Operators of all different stages, one after the other."""
        return [op for _, ops in self.stages for op in ops.values()]

    def seconds(self, wanted: Callable[[Op], bool]) -> list[Number]:
        """Time of some operators of every stage, in order; the others are not priced. [s]"""
        some = replace(
            self,
            stages=tuple(
                (stage, {name: op for name, op in ops.items() if wanted(op)})
                for stage, ops in self.stages
            ),
        )
        return [stage.seconds() for stage in some.priced()]

    def priced(self, known: Sequence[Measured | None] | None = None) -> tuple[Priced, ...]:
        """Price every stage, in order; equal stages are priced once.

        What measurements say of `ops`, each of one execution, may be known; else the calibration is
        asked. MissingRateError where the device lacks the arithmetic.
        """
        told = iter(measured_each(self.ops, self.deployment) if known is None else known)
        each = [_price(self.deployment, stage, ops, told) for stage, ops in self.stages]
        return tuple(each[place] for place in self.order)


def laid_out(deployment: Deployment, group: Group | Sequence[Group]) -> LaidOut:
    """Operators of a step on every stage: of a micro-batch, or of the groups of a mixed one.

    Numbers of a group may be arrays over the scenario axis.
    """
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    keys = [
        (stage.layers, stage.first, stage.last, np.asarray(stage.crosses).tobytes())
        for stage in stages
    ]
    different = dict(zip(keys, stages, strict=True))
    places = {key: place for place, key in enumerate(different)}
    made = steps(deployment, group, list(different.values()))
    return LaidOut(
        deployment,
        tuple(zip(different.values(), made, strict=True)),
        tuple(places[key] for key in keys),
    )


def through(deployment: Deployment, group: Group | Sequence[Group]) -> tuple[Priced, ...]:
    """Price a step on every stage, in order: `laid_out` and priced at once."""
    return laid_out(deployment, group).priced()


def _price(
    deployment: Deployment,
    stage: Stage,
    ops: Mapping[str, Op],
    known: Iterator[Measured | None],
) -> Priced:
    gpu, gains = deployment.node.gpu, deployment.kernel_gains
    timed = {
        name: (op, roofed(op, gpu, float(op.repeat), next(known), gains))
        for name, op in ops.items()
    }
    return Priced(deployment, stage, timed, parts(timed.values()))


def slowest_number(seconds: Sequence[float]) -> int:
    """Place of the stage that takes longest; the first of equals. [1]"""
    return max(range(len(seconds)), key=lambda place: seconds[place])


def slowest(stages: Sequence[Priced]) -> Priced:
    """The stage that takes longest, on average over the scenario axis; the first of equals."""
    return max(stages, key=lambda stage: float(np.mean(stage.seconds())))
