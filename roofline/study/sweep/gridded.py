"""A step priced over a grid of batches × lengths, each operator on the axes that it depends on."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from roofline.cost.calibration.remembered import Remembered
from roofline.cost.deployment import Deployment
from roofline.cost.roof import BOUNDS
from roofline.cost.step import Group
from roofline.cost.work import Array, Number
from roofline.serving.stages import Priced, through


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


def gridded(deployment: Deployment, count: Number, new: Number, context: Number) -> Gridded:
    """Price a step over a grid.

    Parameters
    ----------
    deployment
        What runs, `remembering`.
    count, new, context
        As of `Group`: numbers, or arrays of shape (batches, 1), (1, lengths) or both.
    """
    wide = np.broadcast_shapes(np.shape(count), np.shape(new), np.shape(context))
    return Gridded(through(deployment, Group(count, new, context)), (wide[0], wide[1]))


def bounds(stage: Priced, shape: tuple[int, int]) -> Array:
    """Time of a stage by what binds its operators: of shape (`BOUNDS`, *grid*). [s]"""
    out = np.zeros((len(BOUNDS), *shape))
    for op, time in stage.ops.values():
        bound, took = time.bound, stage.exposed(op, time)
        for number in np.unique(bound):
            out[number] += np.where(bound == number, took, 0.0)
    return out
