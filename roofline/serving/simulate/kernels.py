"""Kernels of a deployment's steps: measured once at each point, whatever an engine makes of them.

What measurements say of an operator does not depend on the other rows that they are asked about,
nor on the engine's gains. So tables of one deployment under other constants, and at other points,
have nearly all of their look-ups in common.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import ALONE, KernelGains, gains_on
from roofline.cost.measured import Measured
from roofline.cost.roof import CHOSEN, Time, measured_each, parts, roofed
from roofline.cost.step import Group
from roofline.cost.work import Array, Number, Op, Work
from roofline.serving.simulate.parts import StepPart
from roofline.serving.stages import LaidOut, laid_out

Points = NDArray[np.complex128]
NOTHING: Final = Work()


@dataclass(frozen=True, slots=True)
class StepKernel:
    """An operator of a stage, without its numbers."""

    op: Op
    """What runs."""
    kind: str | None
    """Kind of the fused kernel that it is a part of, as of `Measured`; None where no kernel like
    it was measured."""


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Times of the kernels of a step alone, at some points."""

    points: Points
    """In order."""
    stages: tuple[tuple[StepKernel, ...], ...]
    """Kernels of each different stage."""
    order: tuple[int, ...]
    """Which of these each stage of the pipeline is. [1]"""
    seconds: Array
    start_s: Array
    """Of one execution, and of that the kernel's start: one row for each kernel of all stages.
    Kernels that were not measured have all their executions at datasheet rates. [s]"""

    def lacks(self, points: Points) -> NDArray[np.bool_]:
        """Points that were not looked up yet."""
        place = np.minimum(np.searchsorted(self.points, points), len(self.points) - 1)
        return np.asarray(self.points[place] != points)

    def merged(self, other: "KernelTimes") -> "KernelTimes":
        """Times at the points of both."""
        points = np.concatenate([self.points, other.points])
        order = np.argsort(points, kind="stable")
        seconds, start_s = (
            np.concatenate(pair, axis=1)[:, order]
            for pair in ((self.seconds, other.seconds), (self.start_s, other.start_s))
        )
        return replace(self, points=points[order], seconds=seconds, start_s=start_s)

    def in_engine(self, deployment: Deployment, gains: KernelGains, points: Points) -> list[Number]:
        """Time of every stage in order, with an engine's gains on its kernels. [s]"""
        place = np.searchsorted(self.points, points)
        rows = zip(self.seconds[:, place], self.start_s[:, place], strict=True)
        each: list[Number] = []
        for stage in self.stages:
            timed: list[tuple[Op, Time]] = []
            for kernel in stage:
                took, start = next(rows)
                op, gpu, kind = kernel.op, deployment.node.gpu, kernel.kind
                start_s = start if start.any() else 0.0
                known = Measured(took, 0.0, 0.0, start_s=start_s, kind=kind or "")
                if kind is None:
                    timed.append((op, Time(op, gpu, 1.0, known)))
                else:
                    timed.append((op, roofed(op, gpu, float(op.repeat), known, gains)))
            each.append(parts(timed).seconds(deployment))
        return [each[place] for place in self.order]


@dataclass(frozen=True, slots=True)
class StepKernels:
    """Kernels of a deployment's steps in an engine."""

    deployment: Deployment
    """What runs."""
    gains: KernelGains
    """Factors on its measured kernels."""
    known: dict[str, KernelTimes] = field(default_factory=dict, repr=False)
    """Times of them alone, by part of a step."""
    felt: set[str] = field(default_factory=lambda: {"launch_s"}, repr=False)
    """Names of the gains on any kernel that was looked up."""

    def seconds(self, part: StepPart, ahead: Callable[[], Group] | None = None) -> list[Number]:
        """Time of some operators of a step on every stage, in order. [s]

        Args:
            part: Which operators of which steps.
            ahead: The group with others that may be asked about next, which are looked up with it:
                a thousand take a few times as long as ten.
        """
        points = _points(part.group)
        times = self.known.get(part.name)
        if times is None:
            times = self._times(replace(part, group=ahead()) if ahead else part)
            self.known[part.name] = times
        elif times.lacks(points).any():
            more = ahead() if ahead else part.group
            lacking = _rows(more, np.flatnonzero(times.lacks(_points(more))))
            new = self._times(replace(part, group=lacking))
            if (new.stages, new.order) == (times.stages, times.order):
                times = self.known[part.name] = times.merged(new)
            else:  # other kernels run at these points than at those that are known
                times = self._times(part)
        return times.in_engine(self.deployment, self.gains, points)

    def look_up(self, parts: Sequence[StepPart]) -> None:
        """Look several parts up at once, none of which is known yet."""
        made = [(part, laid_out(self.deployment, part.group)) for part in parts]
        ops = [op for part, laid in made for op in part.of(laid)]
        known = iter(measured_each(ops, self.deployment))
        for part, laid in made:
            self.known[part.name] = self._told(part, laid, known)

    def _times(self, part: StepPart) -> KernelTimes:
        """Times of kernels alone."""
        laid = laid_out(self.deployment, part.group)
        known = measured_each(part.of(laid), self.deployment)
        return self._told(part, laid, iter(known))

    def _told(self, part: StepPart, laid: LaidOut, told: Iterator[Measured | None]) -> KernelTimes:
        """Times of the kernels of a step of which it is known what measurements say of them."""
        points, first = np.unique(_points(part.group), return_index=True)
        stages: list[tuple[StepKernel, ...]] = []
        seconds: list[Array] = []
        start_s: list[Array] = []
        for _, ops in laid.stages:
            stage: list[StepKernel] = []
            for op in filter(part.wanted, ops.values()):
                known = next(told)
                if known is None:
                    time = roofed(op, self.deployment.node.gpu, float(op.repeat), None)
                    known = Measured(time.overlapped, 0.0, 0.0)
                    stage.append(StepKernel(_bare(op), None))
                else:
                    stage.append(StepKernel(_bare(op), known.kind))
                    self.felt.update(gains_on(op, known.kind))
                seconds.append(_column(known.seconds, first, part.group))
                start_s.append(_column(known.start_s, first, part.group))
            stages.append(tuple(stage))
        wide = (len(seconds), len(points))
        return KernelTimes(
            points, tuple(stages), laid.order, _table(seconds, wide), _table(start_s, wide)
        )

    def as_felt(self, gains: KernelGains) -> KernelGains:
        """Gains without those on kernels that these steps do not have."""
        rest = {each.name for each in fields(KernelGains)} - self.felt
        return replace(gains, **{name: getattr(ALONE, name) for name in rest})


def _points(group: Group) -> Points:
    """Sequences, or the new tokens of each, and the context as one number that has an order."""
    first = group.count if isinstance(group.count, np.ndarray) else group.new
    return np.asarray(first + 1j * np.asarray(group.context))


def _rows(group: Group, rows: NDArray[np.intp]) -> Group:
    def some(value: Number) -> Number:
        return value[rows] if isinstance(value, np.ndarray) else value

    return Group(some(group.count), some(group.new), some(group.context), group.name)


def _bare(op: Op) -> Op:
    """The operator without its numbers, and without an algorithm that depends on them."""
    algorithm = op.algorithm if op.algorithm == CHOSEN else ""
    return replace(op, work=NOTHING, dims={}, wire_s=0.0, algorithm=algorithm)


def _column(value: Number, rows: NDArray[np.intp], group: Group) -> Array:
    return np.broadcast_to(value, np.shape(group.context))[rows]


def _table(rows: Sequence[Array], shape: tuple[int, int]) -> Array:
    return np.array(rows).reshape(shape)
