"""Times of the parts of a step, from measured kernels that are looked up once for every engine.

The measured time of an operator depends neither on the other rows of a look-up nor on the engine's
gains, so tables under other constants and at other points share nearly all look-ups. Times of the
parts are what tables hold, and any step is their sum: an engine's gains are on them, and the stages
and micro-batches of a pipeline are put together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import ALONE, KernelGains, gains_on
from roofline.cost.measured import MeasuredTime
from roofline.cost.roof import CHOSEN, Time, parts, roofed
from roofline.cost.step import SequenceGroup
from roofline.cost.work import Array, Number, Op, Work, union
from roofline.model import tower
from roofline.records import replace
from roofline.serving.quadrature import halved
from roofline.serving.stages import (
    PipelineOperators,
    fill,
    finish,
    laid_out,
    measured,
    pace,
    period,
)
from roofline.serving.workload import turns_of

Points = NDArray[np.complex128]
NOTHING: Final = Work()
ATTENTION: Final = ("decode-attention", "latent-attention")


class StepPart(Struct, frozen=True):
    """Some operators of steps."""

    name: str
    """Key of the look-ups of these operators of steps of such groups."""
    group: SequenceGroup
    """One micro-batch. Either its sequences or their new tokens are an array, with the context
    over the same axis."""
    wanted: Callable[[Op], bool]
    """Predicate of the operators."""


def attends(op: Op) -> bool:
    """Whether an operator is on one group of sequences: attention, and what brings its keys."""
    return op.by_group and not op.encodes


def rest(op: Op) -> bool:
    """Whether an operator depends on the new tokens of a step alone."""
    return not op.by_group and not op.encodes


def encodes(op: Op) -> bool:
    """Whether an operator is of a tower that pictures or sound pass."""
    return op.encodes


def window_of(deployment: Deployment) -> int:
    """Keys that most layers with a window see, or choose; 0 where there are none. [token]"""
    counts: dict[int, int] = {}
    for block, number in deployment.architecture.kinds.items():
        mixer = block.mixer
        if mixer is not None:
            counts[mixer.most_keys] = counts.get(mixer.most_keys, 0) + number
    counts.pop(0, None)
    return max(counts, key=lambda window: counts[window], default=0)


@dataclass(frozen=True, slots=True, eq=False)
class DecodeAttention:
    """Attention operators of decode steps, before they are priced."""

    part: StepPart
    """Its operators, of every different step."""
    number: Array
    """Micro-batches that take turns in each. [1]"""
    place: NDArray[np.intp]
    """Row of different steps that each batch is. [1]"""
    contexts: int
    """Steps of a row. [1]"""

    def table(self, stages: Sequence[Number]) -> Array:
        """Time of every step from its stages' times, of shape (batches, contexts). [s]"""
        return self.at(period(stages, self.number))

    def at(self, found: Number) -> Array:
        """Times of the different steps as those of every step, of the same shape. [s]"""
        whole = np.broadcast_to(found, self.number.shape)
        return whole.reshape(-1, self.contexts)[self.place]


def attended_part(
    deployment: Deployment, batches: Array, contexts: Array, window: int | None = None
) -> DecodeAttention:
    """Attention of a step that only decodes at batches and contexts.

    With a window, that of layers which have it; else that of all others.
    """
    layout, inside = deployment.layout, window_of(deployment)

    def wanted(op: Op) -> bool:
        # Those with a ratio see all of the context beside their window, at that ratio.
        windowed = op.kind in ATTENTION and inside > 0 and op.dims.get("window") == inside
        windowed = windowed and "ratio" not in op.dims
        return attends(op) and windowed == (window is not None)

    # Groups of devices have as many sequences each as the one with most of them.
    turn = turns_of(batches, deployment)
    number, size = (np.broadcast_to(each, batches.shape) for each in turn)
    groups = float(layout.dp)
    pairs, place = np.unique(
        np.stack([number, np.ceil(size / groups) * groups]), axis=1, return_inverse=True
    )
    number, size = np.repeat(pairs, len(contexts), axis=1)
    group = SequenceGroup(size, 1.0, np.tile(contexts, pairs.shape[1]))
    part = StepPart("decode" if window is None else "window", group, wanted)
    return DecodeAttention(part, number, place.ravel(), len(contexts))


def alone_part(deployment: Deployment, batches: Array) -> StepPart:
    """All operators but attention, in steps that only decode."""
    _, size = turns_of(batches, deployment)
    return StepPart("alone", SequenceGroup(size, 1.0, np.ones_like(batches)), rest)


def others_part(deployment: Deployment, tokens: Array, groups: float) -> StepPart:
    """All operators but attention, in steps of so many new tokens with one row of logits.

    The tokens are spread evenly over so many of the groups with sequences of their own; the others
    have none. [1]
    """
    _, size = turns_of(tokens, deployment)
    return StepPart(f"others-{groups:g}", SequenceGroup(groups, size / groups, size / groups), rest)


def head_part(deployment: Deployment, rows: Array) -> StepPart:
    """All operators but attention, in steps of so many rows of logits, one per sequence."""
    _, size = turns_of(rows, deployment)
    each = np.ones_like(rows)
    return StepPart("head", SequenceGroup(size, each, each), rest)


def chunk_part(deployment: Deployment, chunks: Array, cached: Array) -> StepPart:
    """Attention of every chunk after every number of cached tokens, one in each group."""
    new, before = (each.ravel() for each in np.meshgrid(chunks, cached, indexing="ij"))
    number, size = turns_of(new, deployment) if deployment.engine.micro_batch_tokens else (1.0, new)
    # Micro-batches see more of the chunk one after the other, and half of it on average.
    context = before + (new + new / number) / 2.0
    return StepPart("chunks", SequenceGroup(deployment.layout.dp, size, context), attends)


def encoding_part(deployment: Deployment) -> StepPart:
    """Towers over the media of one prompt of each group; a prompt has two tokens or more."""
    alike = np.full(1, 2.0)
    return StepPart("encoding", SequenceGroup(deployment.layout.dp, alike, alike), encodes)


class StepKernel(Struct, frozen=True):
    """An operator of a stage, without its numbers."""

    op: Op
    """Operator."""
    kind: str | None
    """Kind of the fused kernel that it is a part of, as of `MeasuredTime`; None where no kernel
    like it was measured."""


class KernelTimes(Struct, frozen=True):
    """Times of the kernels of a step alone, at some points."""

    points: Points
    """Points in order."""
    stages: tuple[tuple[Deployment, tuple[StepKernel, ...]], ...]
    """Kernels of each different stage, and what they run on."""
    order: tuple[int, ...]
    """Place among these of each stage of the pipeline. [1]"""
    seconds: Array
    start_s: Array
    """Time of one execution, and of the kernel's start in it: a row for each kernel of all stages.
    Kernels that were not measured have all their executions at datasheet rates. [s]"""

    def lacks(self, points: Points) -> NDArray[np.bool_]:
        """Mask of the points that were not looked up yet."""
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

    def in_engine(self, gains: KernelGains, points: Points) -> list[Number]:
        """Time of every stage in order, with an engine's gains on its kernels. [s]"""
        place = np.searchsorted(self.points, points)
        rows = zip(self.seconds[:, place], self.start_s[:, place], strict=True)
        each: list[Number] = []
        for deployment, stage in self.stages:
            timed: list[tuple[Op, Time]] = []
            for kernel in stage:
                took, start = next(rows)
                op, gpu, kind = kernel.op, deployment.node.gpu, kernel.kind
                start_s = start if start.any() else 0.0
                known = MeasuredTime(took, 0.0, 0.0, start_s=start_s, kind=kind or "")
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
    """Deployment."""
    gains: KernelGains
    """Factors on its measured kernels."""
    known: dict[str, KernelTimes] = field(default_factory=dict, repr=False)
    """Times of them alone, by part of a step."""
    felt: set[str] = field(default_factory=lambda: {"launch_s"}, repr=False)
    """Names of the gains on any kernel that was looked up."""

    def seconds(
        self, part: StepPart, ahead: Callable[[], SequenceGroup] | None = None
    ) -> list[Number]:
        """Time of some operators of a step on every stage, in order. [s]

        Args:
            part: Which operators of which steps.
            ahead: The group with others that may be asked about next, which are looked up with it:
                a thousand take a few times as long as ten.
        """
        points = _points(part.group)
        times = self.known.get(part.name)
        if times is None:
            self.look_up([replace(part, group=ahead()) if ahead else part])
            times = self.known[part.name]
        elif times.lacks(points).any():
            more = ahead() if ahead else part.group
            lacking = _rows(more, np.flatnonzero(times.lacks(_points(more))))
            (new,) = self._times([replace(part, group=lacking)])
            if (new.stages, new.order) == (times.stages, times.order):
                times = self.known[part.name] = times.merged(new)
            else:  # other kernels run at these points than at those that are known
                (times,) = self._times([part])
        return times.in_engine(self.gains, points)

    def look_up(self, parts: Sequence[StepPart]) -> None:
        """Look parts up at once, but for those of which some points are known."""
        new = [part for part in parts if part.name not in self.known]
        self.known.update(zip((part.name for part in new), self._times(new), strict=True))

    def _times(self, parts: Sequence[StepPart]) -> list[KernelTimes]:
        """Times of the kernels of several parts alone, looked up at once."""
        made = [(part, laid_out(self.deployment, part.group).some(part.wanted)) for part in parts]
        known = iter(measured([laid for _, laid in made]))
        return [self._told(part, laid, known) for part, laid in made]

    def _told(
        self, part: StepPart, laid: PipelineOperators, told: Iterator[MeasuredTime | None]
    ) -> KernelTimes:
        """Kernel times of a step, from the measurements of its operators in order."""
        points, first = np.unique(_points(part.group), return_index=True)
        stages: list[tuple[Deployment, tuple[StepKernel, ...]]] = []
        seconds: list[Array] = []
        start_s: list[Array] = []
        for each in laid.stages:
            stage: list[StepKernel] = []
            for op in each.ops.values():
                known = next(told)
                if known is None:
                    time = roofed(op, each.deployment.node.gpu, float(op.repeat), None)
                    known = MeasuredTime(time.overlapped, 0.0, 0.0)
                    stage.append(StepKernel(_bare(op), None))
                else:
                    stage.append(StepKernel(_bare(op), known.kind))
                    self.felt.update(gains_on(op, known.kind))
                seconds.append(_column(known.seconds, first, part.group))
                start_s.append(_column(known.start_s, first, part.group))
            stages.append((each.deployment, tuple(stage)))
        wide = (len(seconds), len(points))
        times, starts = (np.array(rows).reshape(wide) for rows in (seconds, start_s))
        return KernelTimes(points, tuple(stages), laid.order, times, starts)

    def as_felt(self, gains: KernelGains) -> KernelGains:
        """Gains with those set to 1 that no kernel of these steps has."""
        rest = set(KernelGains.__struct_fields__) - self.felt
        return replace(gains, **{name: getattr(ALONE, name) for name in rest})


def _points(group: SequenceGroup) -> Points:
    """Sequences (or new tokens of each) and context as real and imaginary part, which sort."""
    first = group.count if isinstance(group.count, np.ndarray) else group.new
    return np.asarray(first + 1j * np.asarray(group.context))


def _rows(group: SequenceGroup, rows: NDArray[np.intp]) -> SequenceGroup:
    def some(value: Number) -> Number:
        return value[rows] if isinstance(value, np.ndarray) else value

    return SequenceGroup(some(group.count), some(group.new), some(group.context), group.name)


def _bare(op: Op) -> Op:
    """The operator without its numbers and without an algorithm chosen from them."""
    algorithm = op.algorithm if op.algorithm == CHOSEN else ""
    return replace(op, work=NOTHING, dims={}, wire_s=0.0, algorithm=algorithm)


def _column(value: Number, rows: NDArray[np.intp], group: SequenceGroup) -> Array:
    return np.broadcast_to(value, np.shape(group.context))[rows]


def attention_times(
    kernels: StepKernels, batches: Array, contexts: Array, window: int | None = None
) -> Array:
    """Attention of a step that only decodes, of shape (batches, contexts). [s]"""
    if window == 0:
        return np.zeros((len(batches), len(contexts)))
    asked = attended_part(kernels.deployment, batches, contexts, window)
    return asked.table(kernels.seconds(asked.part))


def decode_times(kernels: StepKernels, batches: Array, contexts: Array) -> Array:
    """Steps that only decode, without windows, of shape (batches, contexts). [s]

    Attention is hidden as far as something else sets the pace: only together do they have a price.
    """
    deployment = kernels.deployment
    if not deployment.to_and_fro:
        return attention_times(kernels, batches, contexts) + alone_times(kernels, batches)[:, None]
    asked = attended_part(deployment, batches, contexts)
    attended = [asked.at(each) for each in kernels.seconds(asked.part)]
    rest = kernels.seconds(alone_part(deployment, batches))
    number, _ = turns_of(batches, deployment)
    stages = [
        one + np.broadcast_to(other, batches.shape)[:, None]
        for one, other in zip(attended, rest, strict=True)
    ]
    return np.asarray(period(stages, np.broadcast_to(number, batches.shape)[:, None]))


def alone_times(kernels: StepKernels, batches: Array) -> Array:
    """Part of a step that only decodes which is no attention. [s]"""
    return round_times(kernels, batches, kernels.seconds(alone_part(kernels.deployment, batches)))


def round_times(kernels: StepKernels, count: Array, stages: Sequence[Number]) -> Array:
    """Steps of so many sequences or tokens, of all micro-batches, by time of each stage. [s]"""
    number, _ = turns_of(count, kernels.deployment)
    through = finish if kernels.deployment.engine.micro_batch_tokens else period
    return np.broadcast_to(through(stages, number), count.shape).copy()


def others_times(kernels: StepKernels, groups: float, ahead: int) -> Callable[[Array], Array]:
    """Function that gives steps of so many new tokens without attention, for one row of logits.

    The tokens are in so many groups [1]. Tokens of so many halvings are looked up at once,
    whichever of them refining asks about.
    """
    deployment = kernels.deployment
    seen = np.zeros(0)

    def price(tokens: Array) -> Array:
        nonlocal seen
        seen = union(seen, tokens)
        stages = kernels.seconds(
            others_part(deployment, tokens, groups),
            lambda: others_part(deployment, halved(seen, tokens, ahead), groups).group,
        )
        return round_times(kernels, tokens, stages)

    return price


def passing_times(kernels: StepKernels, tokens: Array) -> Array:
    """Time of a micro-batch of so many tokens through all stages, one after the other. [s]

    Its operators but attention, for one row of logits, with all tokens in one group of devices.
    """
    part = StepPart("others-1", SequenceGroup(1.0, tokens, tokens), rest)
    return np.broadcast_to(fill(kernels.seconds(part)), tokens.shape).copy()


def head_times(kernels: StepKernels, rows: Array, price: Callable[[Array], Array]) -> Array:
    """Time that rows of logits beyond the first add to a step, whose `others` are given. [s]"""
    whole = round_times(kernels, rows, kernels.seconds(head_part(kernels.deployment, rows)))
    return np.maximum(whole - price(rows), 0.0)


def chunk_times(kernels: StepKernels, chunks: Array, cached: Array) -> Array:
    """Attention of a chunk for each of its tokens, of shape (chunks, cached). [s]"""
    shape = len(chunks), len(cached)
    stages = kernels.seconds(chunk_part(kernels.deployment, chunks, cached))
    if kernels.deployment.engine.micro_batch_tokens:
        number, _ = turns_of(np.repeat(chunks, len(cached)), kernels.deployment)
        whole = finish(stages, number)
    else:
        whole = pace(stages)
    each: Array = np.broadcast_to(whole, len(chunks) * len(cached)).reshape(shape)
    return (each + encoding_times(kernels, chunks, cached)) / chunks[:, None]


def encoding_times(kernels: StepKernels, chunks: Array, cached: Array) -> Array:
    """Time of the towers over the media of every chunk, of shape (chunks, cached). [s]

    Those that begin in a chunk and end in the next take their share of both.
    """
    deployment = kernels.deployment
    network, media = deployment.architecture, deployment.options.media
    if not network.towers_of(media):
        return np.zeros((len(chunks), len(cached)))
    stages = kernels.seconds(encoding_part(deployment))
    whole = np.max(pace(stages))
    return np.asarray(whole * tower.share(network, media, chunks[:, None], cached))
