"""Parts of steps that depend on the same numbers, of which tables of a step's time are made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.layers.loading import CACHE
from roofline.cost.pipeline import period
from roofline.cost.step import Group
from roofline.cost.work import Array, Number, Op
from roofline.model.architecture import Attention, Mla
from roofline.serving.phases import turns
from roofline.serving.stages import LaidOut

GROUP: Final = "tabled"
"""Name of the group of sequences, by which its operators are told from the others."""
BROUGHT: Final = ("gather-context", CACHE)
"""What brings keys to where they are attended to: part of attention, whatever its name."""
ATTENTION: Final = ("decode-attention", "latent-attention")


@dataclass(frozen=True, slots=True)
class StepPart:
    """Some operators of steps."""

    name: str
    """Of these operators of steps of such groups."""
    group: Group
    """One micro-batch. Either its sequences or their new tokens are an array, with the context
    over the same axis."""
    wanted: Callable[[Op], bool]
    """Which operators."""

    def of(self, laid: LaidOut) -> list[Op]:
        """Those operators of a step on all different stages, one after the other."""
        return [op for op in laid.ops if self.wanted(op)]


def attends(op: Op) -> bool:
    """Whether an operator is of one group of sequences, and not of all new tokens."""
    return GROUP in op.name or op.name.startswith(BROUGHT)


def rest(op: Op) -> bool:
    """Whether an operator depends on the new tokens of a step alone."""
    return not attends(op)


def window_of(deployment: Deployment) -> int:
    """Keys that most layers with a window see, or choose; 0 where there are none. [token]"""
    counts: dict[int, int] = {}
    for block, number in deployment.architecture.kinds.items():
        mixer = block.mixer
        if isinstance(mixer, (Attention, Mla)):
            chosen = mixer.index.top_k if mixer.index is not None else 0
            window = chosen or (mixer.window if isinstance(mixer, Attention) else 0) or 0
            counts[window] = counts.get(window, 0) + number
    counts.pop(0, None)
    return max(counts, key=lambda window: counts[window], default=0)


@dataclass(frozen=True, slots=True, eq=False)
class Attended:
    """Attention of steps that only decode, before it is priced."""

    part: StepPart
    """Its operators, of every different step."""
    number: Array
    """Micro-batches that take turns in each. [1]"""
    place: NDArray[np.intp]
    """Which row of different steps each batch is. [1]"""
    contexts: int
    """Steps of a row. [1]"""

    def table(self, stages: Sequence[Number]) -> Array:
        """Time of every step, of shape (batches, contexts), from that of each stage. [s]"""
        found = np.broadcast_to(period(stages, self.number), self.number.shape)
        return found.reshape(-1, self.contexts)[self.place]


def attended_part(
    deployment: Deployment, batches: Array, contexts: Array, window: int | None = None
) -> Attended:
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
    turn = turns(batches, layout)
    number, size = (np.broadcast_to(each, batches.shape) for each in turn)
    groups = float(layout.dp)
    pairs, place = np.unique(
        np.stack([number, np.ceil(size / groups) * groups]), axis=1, return_inverse=True
    )
    number, size = np.repeat(pairs, len(contexts), axis=1)
    group = Group(size, 1.0, np.tile(contexts, pairs.shape[1]), GROUP)
    part = StepPart("decode" if window is None else "window", group, wanted)
    return Attended(part, number, place.ravel(), len(contexts))


def alone_part(deployment: Deployment, batches: Array) -> StepPart:
    """What is no attention in steps that only decode."""
    _, size = turns(batches, deployment.layout)
    return StepPart("alone", Group(size, 1.0, np.ones_like(batches), GROUP), rest)


def others_part(deployment: Deployment, tokens: Array) -> StepPart:
    """What is no attention in steps of so many new tokens, for one row of logits."""
    layout = deployment.layout
    _, size = turns(tokens, layout)
    return StepPart("others", Group(layout.dp, size / layout.dp, size / layout.dp, GROUP), rest)


def head_part(deployment: Deployment, rows: Array) -> StepPart:
    """What is no attention in steps of so many rows of logits, each of its own sequence."""
    _, size = turns(rows, deployment.layout)
    each = np.ones_like(rows)
    return StepPart("head", Group(size, each, each, GROUP), rest)


def chunk_part(deployment: Deployment, chunks: Array, cached: Array) -> StepPart:
    """Attention of every chunk after every number of cached tokens."""
    new, before = (each.ravel() for each in np.meshgrid(chunks, cached, indexing="ij"))
    return StepPart("chunks", Group(deployment.layout.dp, new, before + new, GROUP), attends)
