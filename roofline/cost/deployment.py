"""What does not change along the scenario axis: a network, a node, formats, a layout, options."""

from dataclasses import dataclass
from typing import Literal

from roofline.cost.attention import Mask
from roofline.cost.moe import UNIFORM, Routing
from roofline.errors import InputError, LayoutError
from roofline.hardware.engine import Engine
from roofline.hardware.machine import Node
from roofline.model.architecture import (
    UNQUANTISED,
    Architecture,
    Attention,
    Block,
    CompressedAttention,
    Mla,
    Mlp,
    Moe,
    Recurrent,
)
from roofline.model.precision import Precision


@dataclass(frozen=True, slots=True)
class Options:
    """Choices about what is run and how it is counted.

    Attributes
    ----------
    attention
        ``"flash"``: scores stay on chip. ``"naive"``: they go through device memory.
    mask
        Pairs that count as work: what a causal kernel does, or the whole square.
    logits
        ``"last"``: the LM head runs for the last token of each sequence, as serving engines do.
        ``"all"``: for every token, as forward passes are counted.
    mla
        Form of latent attention: the one that takes less time, or one of them always.
    routing
        How tokens spread over experts.
    """

    attention: Literal["flash", "naive"] = "flash"
    mask: Mask = "causal"
    logits: Literal["last", "all"] = "last"
    mla: Literal["auto", "expanded", "absorbed"] = "auto"
    routing: Routing = UNIFORM


@dataclass(frozen=True, slots=True)
class Deployment:
    """A network on a node.

    Attributes
    ----------
    architecture, node, precision, engine
        What runs, on what, in which formats, under which engine.
    tp
        Tensor-parallel degree: devices that share every layer. [1]
    options
        How it is run and counted.
    """

    architecture: Architecture
    node: Node
    precision: Precision
    engine: Engine
    tp: int = 1
    options: Options = Options()

    def stored(self, block: Block | None, role: str) -> str:
        """Number format of the matrix of a role, in a layer or outside all layers."""
        network, precision = self.architecture, self.precision
        if role == "lm-head":
            return network.head_format or precision.head.name
        default = precision.head.name if role in UNQUANTISED else precision.weights.name
        return block.stored(role, default) if block is not None else default

    def __post_init__(self) -> None:
        """Refuse layouts that cannot be, and kernels that the network has no use for."""
        naive = self.options.attention == "naive"
        if naive and any(
            isinstance(block.mixer, (Mla, CompressedAttention)) for block in self.architecture.kinds
        ):
            raise InputError(
                f"attention with scores in memory is not priced for {self.architecture.name}",
                hint="it is for plain attention; leave --attention at flash",
            )
        check_tensor_parallel(self.architecture, self.tp)
        if self.tp > self.node.gpus:
            raise LayoutError(
                f"tensor parallel over {self.tp} devices, {self.node.name} has {self.node.gpus}",
                hint=f"use --tp {self.node.gpus} or fewer",
            )


def check_tensor_parallel(architecture: Architecture, tp: int) -> None:
    """Refuse a tensor-parallel degree that the network's shape does not allow.

    Heads and feed-forward width must be divisible; key/value heads are split, or repeated on
    several devices where there are fewer of them than devices.

    Raises
    ------
    LayoutError
        Names the number that has to be divisible.
    """
    if tp < 1:
        raise LayoutError(f"tensor parallel over {tp} devices", hint="use at least 1 device")
    for block in architecture.kinds:
        mixer, part = block.mixer, block.feedforward
        if isinstance(mixer, (Attention, Mla, CompressedAttention)):
            _divides(tp, mixer.heads, "query heads", architecture)
        if isinstance(mixer, Attention) and mixer.kv_heads % tp and tp % mixer.kv_heads:
            raise LayoutError(
                f"{architecture.name}: {mixer.kv_heads} key/value heads can neither be split "
                f"nor repeated evenly over {tp} devices",
                hint=_degrees(mixer.heads, tp, mixer.kv_heads),
            )
        if isinstance(mixer, Recurrent):
            _divides(tp, mixer.heads, f"{mixer.kind} heads", architecture)
        if isinstance(part, Mlp):
            _divides(tp, part.width, "feed-forward width", architecture)
        if isinstance(part, Moe):
            _divides(tp, part.width, "expert width", architecture)
            _divides(tp, part.shared_width, "shared expert width", architecture)


def _divides(tp: int, number: int, what: str, architecture: Architecture) -> None:
    if number % tp:
        raise LayoutError(
            f"{architecture.name}: {what} {number} cannot be divided by a degree of {tp}",
            hint=_degrees(number, tp),
        )


def _degrees(number: int, tp: int, kv_heads: int = 1) -> str:
    fits = [
        str(n)
        for n in range(1, max(tp, 8) + 1)
        if number % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)
    ]
    return f"degrees that divide {number}: {', '.join(fits)}"


def kv_heads_per_device(attention: Attention, tp: int) -> float:
    """Key/value heads on one device; heads are repeated where there are fewer than devices. [1]"""
    return max(attention.kv_heads / tp, 1.0)


def qkv_biased_per_device(attention: Attention, tp: int) -> float:
    """Biases of the q, k and v projections on one device; those of repeated heads repeat. [1]

    Where only some outputs have a bias they are the queries first.
    """
    queries = min(attention.qkv_biased, attention.query_width)
    repeated = kv_heads_per_device(attention, tp) / attention.kv_heads
    return queries / tp + (attention.qkv_biased - queries) * repeated
