"""Feed-forward parts of layers: matrices, experts, activations, and what devices can share.

A kind of feed-forward part is one class with the properties of `FeedForward`; its operators are one
function of `roofline.cost.layers`.
"""

from collections.abc import Hashable
from typing import ClassVar, Protocol

from msgspec import Struct

from roofline.model.linear import Group, Linear
from roofline.part import Number
from roofline.records import replace


class SharedWidth(Struct, frozen=True):
    """Width that the devices of a group divide between them."""

    name: str
    """Words for a message: ``"feed-forward width"``."""
    width: int
    """Width as a whole. [1]"""
    group: Group = "layer"
    """Devices that divide it."""


class FeedForward(Hashable, Protocol):
    """A part of a layer that works on each token by itself, described without a device."""

    @property
    def label(self) -> str:
        """Kind of the part in a word: ``"dense"``."""

    @property
    def width(self) -> int:
        """Inner width F, of one expert where tokens are routed. [1]"""

    @property
    def gated(self) -> bool:
        """True with a gate projection beside the up projection."""

    @property
    def experts(self) -> int:
        """Experts E that tokens are routed to; 0 where all tokens meet the whole part. [1]"""

    @property
    def active(self) -> int:
        """Experts k that each token is routed to. [1]"""

    @property
    def groups(self) -> int:
        """Equal groups of experts. [1]"""

    @property
    def active_groups(self) -> int:
        """Groups that the experts of a token may come from (node-limited routing). [1]"""

    @property
    def other_parameters(self) -> int:
        """Parameters that are not in a matrix. [parameter]"""

    @property
    def shared_widths(self) -> tuple[SharedWidth, ...]:
        """Widths that have to be multiples of the devices that divide them."""

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Matrices that every token is multiplied with."""

    def expert_linears(self, d_model: int) -> tuple[Linear, ...]:
        """Matrices of one routed expert; none without experts."""

    def activation_width(self, tp: Number, shared_tp: Number) -> Number:
        """Inputs and outputs alive at once, per token on one device. [1]

        Args:
            tp: Devices that share the layer. [1]
            shared_tp: Devices that share what tokens meet beside routed experts. [1]
        """

    def with_width(self, width: int) -> "FeedForward":
        """The same part with another inner width."""

    def with_experts(self, experts: int, active: int) -> "FeedForward":
        """So many experts, so many of them for a token, each like this part or its experts."""


class DensePart(Struct, frozen=True):
    """Answers to `FeedForward` of parts that all tokens meet: each class states the rest."""

    label: ClassVar[str] = "dense"
    experts: ClassVar[int] = 0
    active: ClassVar[int] = 0
    groups: ClassVar[int] = 1
    active_groups: ClassVar[int] = 1
    other_parameters: ClassVar[int] = 0

    def expert_linears(self, d_model: int) -> tuple[Linear, ...]:
        """None."""
        return ()


class Mlp(DensePart, frozen=True):
    """Dense feed-forward part: ``down(act(gate) · up)`` if gated, else ``down(act(up))``."""

    width: int
    """Inner width F. [1]"""
    gated: bool
    """True with a gate projection beside the up projection."""
    up_bias: bool = False
    down_bias: bool = False
    """True if those projections have biases."""
    activation: str = "silu"
    """Name, as the config has it: ``"silu"``."""

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Gate and up (fused, as engines run them), then down."""
        n = self.width * (2 if self.gated else 1)
        return (
            Linear("gate-up" if self.gated else "up", n, d_model, n if self.up_bias else 0),
            Linear("down", d_model, self.width, d_model if self.down_bias else 0, "row"),
        )

    @property
    def shared_widths(self) -> tuple[SharedWidth, ...]:
        """Inner width."""
        return (SharedWidth("feed-forward width", self.width),)

    def activation_width(self, tp: Number, shared_tp: Number) -> Number:
        """Outputs of gate and up, and the input of down. [1]"""
        return self.width / tp * (3 if self.gated else 2)

    def with_width(self, width: int) -> "Mlp":
        """The same part with another inner width."""
        return replace(self, width=width)

    def with_experts(self, experts: int, active: int) -> "Moe":
        """Copies of this part as experts."""
        return Moe(
            experts=experts,
            active=active,
            width=self.width,
            gated=self.gated,
            up_bias=self.up_bias,
            down_bias=self.down_bias,
            activation=self.activation,
        )


class Moe(Struct, frozen=True):
    """Mixture of experts: a router sends each token to k of E feed-forward parts."""

    label: ClassVar[str] = "experts"
    experts: int
    active: int
    """E and k. [1]"""
    width: int
    """Inner width of one expert. [1]"""
    gated: bool = True
    up_bias: bool = False
    down_bias: bool = False
    activation: str = "silu"
    """Fields of `Mlp`, of the routed experts."""
    shared_width: int = 0
    """Inner width of what every token passes beside the routed experts: shared experts together,
    or a dense part; 0 without one. [1]"""
    shared_gate: bool = False
    """True if a D → 1 gate scales the shared part."""
    router_bias: bool = False
    """True if the router's logits have biases that are parameters (buffers are not counted)."""
    latent: int = 0
    """Width that routed experts work at where it is not D: tokens are projected to it and back;
    0 for D. [1]"""
    latent_norm: bool = False
    """True if the sum of routed experts is normed before it is projected back."""
    groups: int = 1
    active_groups: int = 1
    """Equal groups of experts, and how many of them the experts of a token may come from
    (node-limited routing); 1 and 1 where they may come from anywhere. [1]"""

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Matrices of every token: router, latent projections, shared part."""
        out = [Linear("router", self.experts, d_model, self.experts * self.router_bias, "none")]
        if self.latent:
            out.append(Linear("latent-in", self.latent, d_model, split="none"))
            out.append(Linear("latent-out", d_model, self.latent, split="none"))
        if self.shared_gate:
            out.append(Linear("shared-gate", 1, d_model, split="none", group="shared"))
        if self.shared_width:
            n = self.shared_width * (2 if self.gated else 1)
            name, width = "shared-gate-up" if self.gated else "shared-up", self.shared_width
            out.append(Linear(name, n, d_model, group="shared"))
            out.append(Linear("shared-down", d_model, width, split="row", group="shared"))
        return tuple(out)

    def expert_linears(self, d_model: int) -> tuple[Linear, Linear]:
        """Gate and up, then down, of one routed expert."""
        d, width = self.latent or d_model, self.width
        n, name = width * (2 if self.gated else 1), "gate-up" if self.gated else "up"
        return (
            Linear(f"experts-{name}", n, d, n * self.up_bias, group="expert"),
            Linear("experts-down", d, width, d * self.down_bias, "row", "expert"),
        )

    @property
    def other_parameters(self) -> int:
        """Weights of the norm at the latent width. [parameter]"""
        return self.latent * self.latent_norm

    @property
    def shared_widths(self) -> tuple[SharedWidth, ...]:
        """Inner width of an expert, and of the shared part."""
        return (
            SharedWidth("expert width", self.width, "expert"),
            SharedWidth("shared expert width", self.shared_width, "shared"),
        )

    def activation_width(self, tp: Number, shared_tp: Number) -> Number:
        """Rows of k experts, spread as their devices are, and the shared part. [1]

        Each device keeps 1/(t·e) of the rows of its stage where experts are spread, and its own.
        """
        matrices = 3 if self.gated else 2
        rows = self.active * (self.width * matrices / tp + self.latent)
        return rows + self.shared_width / shared_tp * matrices

    def with_width(self, width: int) -> "Moe":
        """The same mixture with another inner width of its routed experts."""
        return replace(self, width=width)

    def with_experts(self, experts: int, active: int) -> "Moe":
        """Another number of the same experts."""
        return replace(self, experts=experts, active=active)
