"""A step priced over a grid of batches × lengths, each operator on the axes that it depends on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofline.cost.calibration.remembered import Remembered, together
from roofline.cost.deployment import Deployment
from roofline.cost.measured import Measured
from roofline.cost.roof import BOUNDS
from roofline.cost.step import Group
from roofline.cost.work import Array, Number, Op
from roofline.errors import RooflineError
from roofline.serving.stages import LaidOut, Priced, laid_out


@dataclass(frozen=True, slots=True)
class Gridded:
    """A step over a grid: stages of its pipeline, in order.

    Attributes
    ----------
    stages
        Each with numbers that broadcast to the grid.
    shape
        The grid: batches × lengths.
    """

    stages: tuple[Priced, ...]
    shape: tuple[int, int]

    def wide(self, value: Number) -> Array:
        """A number at each place of the grid."""
        return np.broadcast_to(np.asarray(value, np.float64), self.shape)

    @property
    def different(self) -> tuple[Priced, ...]:
        """Stages, of equal ones the first."""
        return tuple({id(stage): stage for stage in self.stages}.values())

    def seconds(self) -> list[Array]:
        """Time of each stage. [s]"""
        return [self.wide(stage.seconds()) for stage in self.stages]

    def of_slowest(self, value: Callable[[Priced], Number]) -> Array:
        """A number of the stage that takes longest; of equals the first."""
        stages = self.different
        values = [self.wide(value(stage)) for stage in stages]
        if len(stages) == 1:
            return values[0]
        most = np.argmax(np.stack([self.wide(stage.seconds()) for stage in stages]), axis=0)
        return np.asarray(np.take_along_axis(np.stack(values), most[None], axis=0)[0])


def remembering(deployment: Deployment) -> Deployment:
    """The deployment with kernels that are priced once, on the axes that they depend on."""
    known = deployment.calibration
    if known is None or isinstance(known, Remembered):
        return deployment
    return replace(deployment, calibration=Remembered(known, deployment.node.gpu))


@dataclass(slots=True)
class GridStep:
    """A step over a grid before it is priced.

    Attributes
    ----------
    step
        Its operators.
    shape
        The grid: batches × lengths.
    known
        What measurements say of the operators; None where they were not asked yet.
    """

    step: LaidOut
    shape: tuple[int, int]
    known: Sequence[Measured | None] | None = None

    def priced(self) -> Gridded:
        """The step with its times.

        Raises
        ------
        MissingRateError
            The device lacks the arithmetic.
        """
        return Gridded(self.step.priced(self.known), self.shape)


def grid_step(deployment: Deployment, count: Number, new: Number, context: Number) -> GridStep:
    """Operators of a step over a grid.

    Parameters
    ----------
    deployment
        What runs, `remembering`.
    count, new, context
        As of `Group`: numbers, or arrays of shape (batches, 1), (1, lengths) or both.
    """
    wide = np.broadcast_shapes(np.shape(count), np.shape(new), np.shape(context))
    return GridStep(laid_out(deployment, Group(count, new, context)), (wide[0], wide[1]))


def ask_together(steps: Sequence[GridStep]) -> None:
    """Ask the calibrations of several steps about all of their operators at once.

    Steps of a device that lacks the arithmetic are left as they were.
    """
    asked: list[tuple[Remembered, Op]] = []
    waiting: list[tuple[GridStep, int]] = []
    for each in steps:
        known = each.step.deployment.calibration
        if isinstance(known, Remembered) and each.known is None:
            asked += [(known, op) for op in each.step.ops]
            waiting.append((each, len(asked)))
    told, start = together(asked), 0
    for each, end in waiting:
        found = [price for price in told[start:end] if not isinstance(price, RooflineError)]
        each.known = found if len(found) == end - start else None
        start = end


def bounds(stage: Priced, shape: tuple[int, int]) -> Array:
    """Time of a stage by what binds its operators: of shape (`BOUNDS`, *grid*). [s]"""
    out = np.zeros((len(BOUNDS), *shape))
    for op, time in stage.ops.values():
        bound, took = time.bound, stage.exposed(op, time)
        for number in np.unique(bound):
            out[number] += np.where(bound == number, took, 0.0)
    return out
