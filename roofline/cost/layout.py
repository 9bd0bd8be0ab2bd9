"""Layouts of a replica over devices: those that a network allows, and what each device has.

Symbols: t devices share every matrix (tensor parallel), c share a context, d have sequences of
their own beside them (attention data parallel), p stages follow one another (pipeline parallel).
A stage is t·c·d devices; its experts are spread over e groups of t·c·d / e devices. Ranks are
numbered with t innermost, then c, then d, then p.
"""

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.collectives import Ranks
from roofline.cost.work import Number
from roofline.errors import InputError, LayoutError
from roofline.hardware.machine import Node
from roofline.hardware.serving_engine import Engine
from roofline.model.architecture import Architecture, Block, counted
from roofline.model.feedforward import FeedForward
from roofline.model.linear import Group

DEGREES: Final = ("tp", "cp", "dp", "ep", "pp")
MOST: Final = 2**20
"""Largest degree that is read."""
_SPELLED: Final = re.compile(r"(tp|cp|dp|ep|pp)(\d{1,7})|(sp)")
_FILLED: Final = re.compile(r"[\s×x*,+_-]+")


class Layout(Struct, frozen=True):
    """Degrees of parallelism of one replica. Those of a stage may be arrays over the scenario axis.

    Examples:
        >>> Layout(tp=8, pp=2).devices, str(Layout(tp=2, dp=8, ep=16))
        (16, 'TP 2 × DP 8 × EP 16')
    """

    tp: Number = 1
    """Tensor parallel t: devices that share heads and widths of every layer. [1]"""
    cp: Number = 1
    """Context parallel c: devices that share the tokens of every sequence. [1]"""
    dp: Number = 1
    """Attention data parallel d: groups with sequences of their own, which share the experts.
    [1]"""
    ep: Number = 1
    """Expert parallel e: groups that the experts of a stage are spread over; the devices of a
    group share each expert's matrices. [1]"""
    pp: int = 1
    """Pipeline parallel p: stages. [1]"""
    sequence_parallel: bool = False
    """True where norms and residuals are split by tokens over the tensor-parallel group, with an
    all-gather before and a reduce-scatter after each part instead of an all-reduce."""
    stages: tuple[int, ...] = ()
    """Layers of each stage; empty for an even split. [1]"""
    microbatches: int = 0
    """Parts a batch is cut into so that stages work at once; 0 for one for each stage. [1]"""

    @property
    def stage_devices(self) -> Number:
        """Devices of a stage. [1]"""
        return self.tp * self.cp * self.dp

    @property
    def devices(self) -> Number:
        """Devices of the replica. [1]"""
        return self.stage_devices * self.pp

    @property
    def expert_tp(self) -> Number:
        """Devices that share the matrices of an expert. [1]"""
        return self.stage_devices / self.ep

    @property
    def apart(self) -> Number:
        """1 where devices of a stage hold different tokens, so that experts are sent theirs."""
        return np.where(np.asarray(self.cp * self.dp) > 1, 1.0, 0.0)[()]

    def sharing(self, group: Group) -> Number:
        """Devices that divide the matrices of a group between them. [1]

        Where tokens are sent to their experts, what they meet beside these is whole on each device.
        """
        if group == "shared":
            return np.where(np.asarray(self.apart) > 0, 1.0, self.tp)[()]
        return self.expert_tp if group == "expert" else self.tp

    @property
    def is_axis(self) -> bool:
        """True where any degree is an array."""
        return any(isinstance(n, np.ndarray) for n in (self.tp, self.cp, self.dp, self.ep))

    @property
    def spelled(self) -> str:
        """Spelling that the command line takes: ``"tp8-pp2"``."""
        parts = [f"{name}{degree:.0f}" for name, degree in self._degrees() if degree != 1]
        return "-".join(parts + ["sp"] * self.sequence_parallel) or "tp1"

    def __str__(self) -> str:
        """Degrees above 1, as people write them."""
        parts = [f"{name.upper()} {degree:.0f}" for name, degree in self._degrees() if degree != 1]
        return " × ".join(parts + ["SP"] * self.sequence_parallel) or "TP 1"

    def _degrees(self) -> tuple[tuple[str, float], ...]:
        assert not self.is_axis, "an axis of layouts has no name"
        degrees = {"tp": self.tp, "cp": self.cp, "dp": self.dp, "ep": self.ep, "pp": self.pp}
        return tuple((name, float(degree)) for name, degree in degrees.items())


SINGLE: Final = Layout()
"""One device."""


def parse(text: str) -> Layout:
    """Read a layout: degrees with their names, in any order.

    Args:
        text: ``"tp8-pp2"``, ``"dp16 ep16"``, ``"tp4 sp"``.

    Raises:
        InputError: Something in it is no degree, or a degree is there twice.

    Examples:
        >>> parse("TP8 x PP2") == Layout(tp=8, pp=2)
        True
    """
    degrees: dict[str, Any] = {}
    for word in filter(None, _FILLED.split(text.strip().lower()[:200])):
        position = 0
        while match := _SPELLED.match(word, position):
            name, degree = match[1] or match[3], int(match[2] or 1)
            if not degree:
                raise InputError(
                    f"layout {text!r:.60}: {name} over 0 devices", hint="use at least 1 device"
                )
            if name in degrees:
                raise InputError(f"layout {text!r:.60} says {name} twice", hint="say it once")
            degrees[name], position = degree, match.end()
        if position != len(word):
            raise InputError(
                f"layout {text!r:.60}: {word[position:]!r:.20} is no degree of parallelism",
                hint="degrees are tp, cp, dp, ep and pp with a number, and sp: tp8-pp2",
            )
    if not degrees:
        raise InputError("the layout is empty", hint="say degrees, like tp8-pp2")
    split = degrees.pop("sp", 0) > 0
    return Layout(**degrees, sequence_parallel=split)


def parts(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage, as evenly as they go.

    What is left over goes to the stages before the last one, which has the LM head, latest first.
    Source: the split that serving engines use by default.

    Args:
        layers, stages: To be divided, and into how many. [1]

    Examples:
        >>> parts(61, 4)
        (15, 15, 16, 15)
    """
    each, left = divmod(layers, stages)
    out = [each] * stages
    for number in range(left):
        out[(stages - 2 - number) % stages] += 1
    return tuple(out)


class Stage(Struct, frozen=True):
    """A stage of the pipeline."""

    layers: tuple[tuple[Block, int], ...]
    """Kinds of layer with the number of each."""
    first: bool
    last: bool
    """True where it has the embedding, and where it has the LM head."""
    crosses: Number = 0.0
    """1 where what it sends to the next stage leaves the node, 0 where it does not."""


def pipeline(architecture: Architecture, layout: Layout, node: Node) -> tuple[Stage, ...]:
    """Stages of a layout, in order."""
    counts = layout.stages or parts(len(architecture.layers), layout.pp)
    starts = accumulate(counts[:-1], initial=0)
    wide, local = layout.stage_devices, in_a_node(layout, node)

    def crosses(number: int) -> Number:
        first, last = number * wide, (number + 2) * wide - 1
        out = np.where(np.asarray(first // local) != last // local, 1.0, 0.0)[()]
        same = isinstance(out, np.ndarray) and out.size and np.all(out == out.flat[0])
        return float(out.flat[0]) if same else out

    return tuple(
        Stage(
            tuple(counted(architecture.layers[start : start + count]).items()),
            first=number == 0,
            last=number == layout.pp - 1,
            crosses=crosses(number) if number < layout.pp - 1 else 0.0,
        )
        for number, (start, count) in enumerate(zip(starts, counts, strict=True))
    )


def different(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Stages that differ in what they hold, the first of each kind."""
    return tuple(
        {(stage.layers, stage.first, stage.last): stage for stage in stages[::-1]}.values()
    )


def in_a_node(layout: Layout, node: Node) -> Number:
    """Devices of a replica that lie in one node. [1]

    Source: as few nodes as hold it, all alike.

    Args:
        layout, node: The replica, and what it lies on.
    """
    return layout.devices / np.ceil(layout.devices / node.gpus)


def group(layout: Layout, node: Node, size: Number, stride: Number = 1) -> Ranks:
    """Devices that talk to each other, as they lie on nodes.

    Where a group straddles nodes unevenly, as many lie together as do in every node.

    Args:
        layout, node: The replica, and what it lies on.
        size: Devices of the group. [1]
        stride: Distance between neighbours of the group in the numbering of ranks. [1]
    """
    local = np.asarray(in_a_node(layout, node)).astype(np.int64)
    reach = np.asarray(size * stride).astype(np.int64)
    inside = np.maximum(np.gcd(reach, local) // np.asarray(stride).astype(np.int64), 1)
    return Ranks(size, inside.astype(float)[()], node.link, node.network, node.gpus)


def runs(engine: Engine, layout: Layout) -> NDArray[np.bool_]:
    """Mask of layouts whose degrees an engine has together.

    Args:
        engine, layout: What runs, in one layout or along an axis of them.
    """
    names = (*DEGREES, "sp")
    above = (np.asarray(getattr(layout, name)) > 1 for name in DEGREES)
    split = np.stack(np.broadcast_arrays(*above, layout.sequence_parallel))
    had = np.zeros(split.shape[1:], bool)
    for each in engine.layouts or (names,):
        had |= ~np.any(split[[name not in each for name in names]], axis=0)
    return had


def check_engine(engine: Engine, layout: Layout) -> None:
    """Refuse a layout that an engine does not have.

    Raises:
        LayoutError: Names the degrees that it has.
    """
    if not np.all(runs(engine, layout)):
        known = " or by ".join(" and ".join(each) for each in engine.layouts)
        raise LayoutError(
            f"{engine.title} has no layout {layout}: it splits a network by {known}",
            hint="use a layout of these, or another `engine`",
        )


def check_layout(
    architecture: Architecture, layout: Layout, node: Node, redundant: int = 0
) -> None:
    """Refuse a layout that the network's shape or the machine does not allow.

    Heads and feed-forward widths must be divisible; key/value heads are split, or repeated on
    several devices where there are fewer of them than devices; the rows of the vocabulary and the
    experts, redundant ones [1] among them, are padded.

    Raises:
        LayoutError: Names the number that has to be divisible.
    """
    for name in ("tp", "cp", "dp", "ep", "pp"):
        degree = getattr(layout, name)
        if degree != int(degree) or not 1 <= degree <= MOST:
            raise LayoutError(
                f"{_WORDS[name]} over {degree:g} devices",
                hint=f"use at least 1 device and {MOST:,} at most",
            )
    _check_stages(architecture, layout)
    _check_experts(architecture, layout, redundant)
    check_shared_context(architecture, layout)
    check_layer(architecture, int(layout.tp))
    for part in architecture.mixtures:
        for group in ("expert", "shared"):
            _check_widths(architecture, part, group, int(layout.sharing(group)))
    devices = int(layout.devices)
    if devices > node.gpus and node.network is None:
        raise LayoutError(
            f"{layout} takes {devices} devices, {node.name} has {node.gpus} and no network",
            hint=f"use {node.gpus} devices or fewer, or a node whose file states its network",
        )
    nodes = -(-devices // node.gpus)
    if devices % nodes:
        raise LayoutError(
            f"{layout} takes {devices} devices, which do not spread evenly over {nodes} nodes "
            f"of {node.gpus}",
            hint=f"use a multiple of {nodes} devices",
        )


_WORDS = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "dp": "attention data parallel",
    "ep": "expert parallel",
    "pp": "pipeline parallel",
}


def _check_stages(architecture: Architecture, layout: Layout) -> None:
    layers = len(architecture.layers)
    if layout.pp > max(layers, 1):
        raise LayoutError(
            f"{architecture.name} has {layers} layers, too few for {layout.pp} stages",
            hint=f"use `pp={layers}` or less",
        )
    if layout.stages and (
        len(layout.stages) != layout.pp or sum(layout.stages) != layers or min(layout.stages) < 1
    ):
        said = ", ".join(map(str, layout.stages))
        raise LayoutError(
            f"stages of {said} layers are not {layout.pp} stages with the {layers} layers of "
            f"{architecture.name}",
            hint=f"give {layout.pp} numbers of 1 or more that add up to {layers}",
        )


def _check_experts(architecture: Architecture, layout: Layout, redundant: int) -> None:
    mixtures = architecture.mixtures
    if not mixtures and layout.ep > 1:
        raise LayoutError(
            f"{architecture.name} has no experts to spread over {layout.ep:g} groups",
            hint="leave `ep` out",
        )
    if not mixtures and layout.dp > 1:
        raise LayoutError(
            f"{architecture.name} has no experts for {layout.dp:g} attention groups to share",
            hint=f"groups that share nothing are replicas: `tp={layout.tp:g}` and "
            f"`gpus={layout.devices:g}`",
        )
    if layout.stage_devices % layout.ep:
        most = int(layout.stage_devices)
        divisors = [str(n) for n in range(1, most + 1) if most % n == 0]
        raise LayoutError(
            f"experts over {layout.ep:g} groups, but a stage has {layout.stage_devices:g} devices "
            "(TP · CP · DP)",
            hint=f"make `ep` one of {', '.join(divisors)}",
        )
    for part in mixtures:
        if layout.ep > part.experts + redundant:
            raise LayoutError(
                f"{architecture.name}: {part.experts + redundant} experts cannot be spread over "
                f"{layout.ep:g} groups",
                hint=f"use `ep={part.experts + redundant}` or less, or redundant experts",
            )


def check_shared_context(architecture: Architecture, layout: Layout) -> None:
    """Refuse context parallelism of layers that it is not priced for.

    Raises:
        LayoutError: Names what they have.
    """
    if layout.cp == 1:
        return
    for block in architecture.kinds:
        part = block.mixer
        if part is not None and part.context_bound:
            raise LayoutError(
                f"{architecture.name} has layers with {part.context_bound}, which context "
                "parallelism is not priced for",
                hint="use tensor or pipeline parallelism",
            )


def check_layer(architecture: Architecture, tp: int) -> None:
    """Refuse a tensor-parallel degree that heads and dense widths do not allow.

    Raises:
        LayoutError: Names the number that has to be divisible.
    """
    for block in architecture.kinds:
        if (mixer := block.mixer) is not None:
            _divides(tp, mixer.heads, mixer.heads_name, architecture)
            shared = mixer.repeatable_heads
            if shared and shared % tp and tp % shared:
                raise LayoutError(
                    f"{architecture.name}: {shared} key/value heads can neither be split "
                    f"nor repeated evenly over {tp} devices",
                    hint=_degrees(mixer.heads, tp, shared),
                )
        if block.feedforward is not None:
            _check_widths(architecture, block.feedforward, "layer", tp)


def _check_widths(architecture: Architecture, part: FeedForward, group: Group, degree: int) -> None:
    for each in part.shared_widths:
        if each.group == group:
            _divides(degree, each.width, each.name, architecture)


def _divides(degree: int, number: int, what: str, architecture: Architecture) -> None:
    if number % degree:
        raise LayoutError(
            f"{architecture.name}: {what} {number} cannot be divided by a degree of {degree}",
            hint=_degrees(number, degree),
        )


def _degrees(number: int, tp: int, kv_heads: int = 1) -> str:
    fits = [
        str(n)
        for n in range(1, max(tp, 8) + 1)
        if number % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)
    ]
    return f"degrees that divide {number}: {', '.join(fits)}; `roofline layouts` lists others"


def padded(rows: int, groups: Number) -> Number:
    """Rows, or experts, on the fullest of some groups, the last group padded. [1]

    Source: ⌈rows / groups⌉; engines pad to multiples that are larger still.

    Args:
        rows: To be divided. [1]
        groups: Groups of devices. [1]

    Examples:
        >>> float(padded(50257, 8)), float(padded(50257, 1))
        (6283.0, 50257.0)
    """
    return np.ceil(rows / groups)
