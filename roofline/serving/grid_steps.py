"""Steps over a grid of batches and contexts, or of layouts, priced when first asked about."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration.remembered import Remembered
from roofline.cost.calibration.remembered import together as look_up
from roofline.cost.deployment import Deployment
from roofline.cost.kernels.form import longest
from roofline.cost.measured import Measured
from roofline.cost.roof import BOUNDS
from roofline.cost.step import Group
from roofline.cost.work import Array, Number, Op, anywhere, chosen, plus
from roofline.errors import RooflineError
from roofline.serving.stages import LaidOut, Priced, laid_out


@dataclass(eq=False)
class GridStep:
    """Step over a grid, priced when it is first asked about."""

    laid: LaidOut
    """Its operators on the stages of a pipeline."""
    shape: tuple[int, ...]
    """Rows and columns of the grid; empty for one step."""
    known: Sequence[Measured | None] | None = None
    """Measured times of the operators; None where they were not looked up yet."""

    @cached_property
    def stages(self) -> tuple[Priced, ...]:
        """Stages of the pipeline in order, with numbers that broadcast to the grid."""
        return self.laid.priced(self.known)

    @cached_property
    def different(self) -> tuple[Priced, ...]:
        """Stages, of equal ones the first."""
        return tuple({id(stage): stage for stage in self.stages}.values())

    def wide(self, value: Number) -> Array:
        """A number at each place of the grid."""
        return np.broadcast_to(np.asarray(value, np.float64), self.shape)

    def seconds(self, *, serial: bool = False) -> list[Number]:
        """Time of the kernels of each stage, or what it would be if nothing overlapped. [s]"""
        each = {id(stage): stage.seconds(serial) for stage in self.different}
        return [each[id(stage)] for stage in self.stages]

    def of_slowest(self, value: Callable[[Priced], Number]) -> Array:
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


def _bound_times(stage: Priced) -> list[Number]:
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
        count, new, context: As of `Group`: numbers, or arrays of shape (rows, 1), (1, columns) or
            both.
    """
    numbers = (count, new, context, deployment.layout.tp)
    shape = np.broadcast_shapes(*map(np.shape, numbers))
    return GridStep(laid_out(deployment, Group(count, new, context)), shape)


def remembering(deployment: Deployment) -> Deployment:
    """The deployment with kernels that are priced once, on the axes that they depend on."""
    known, pool = deployment.calibration, deployment.ffn
    if pool is not None:
        fed = replace(pool, deployment=remembering(pool.deployment))
        deployment = replace(deployment, ffn=fed)
    if known is None or isinstance(known, Remembered):
        return deployment
    return replace(deployment, calibration=Remembered(known, deployment.node.gpu))


def ask_together(steps: Sequence[GridStep]) -> None:
    """Ask the calibrations of several steps about all of their operators at once.

    Steps of a device that lacks the arithmetic are left as they were.
    """
    asked: list[tuple[Remembered, Op]] = []
    waiting: list[tuple[GridStep, int]] = []
    for each in steps:
        known = [stage.deployment.calibration for stage in each.laid.stages]
        if each.known is None and all(isinstance(one, Remembered) for one in known):
            for one, stage in zip(known, each.laid.stages, strict=True):
                assert isinstance(one, Remembered), "checked above"
                asked += [(one, op) for op in stage.ops.values()]
            waiting.append((each, len(asked)))
    told, start = look_up(asked), 0
    for each, end in waiting:
        found = [price for price in told[start:end] if not isinstance(price, RooflineError)]
        each.known = found if len(found) == end - start else None
        start = end


def wires(step: GridStep) -> Number:
    """Share of the time of all stages that collectives take. [1]"""
    wired: Number = sum((stage.parts.wire for stage in step.stages), 0.0)
    whole: Number = sum(step.seconds(), 0.0)
    return wired / whole
