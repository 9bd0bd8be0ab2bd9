"""Matrices that every token is multiplied with, and the feed-forward parts made of them."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Split: TypeAlias = Literal["column", "row", "none"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix that every token is multiplied with: ``y[n] = W[n, k] · x[k] (+ b[n])``."""

    name: str
    """Role: ``"qkv"``, ``"attn-out"``, ``"gate-up"``, ``"down"``."""
    n: int
    k: int
    """Output and input width. [1]"""
    biased: int = 0
    """Outputs that have a bias: 0, n, or only some of them. [1]"""
    split: Split = "column"
    """Division by tensor parallelism: by outputs (column), by inputs (row), or none."""

    @property
    def parameters(self) -> int:
        """Weights and biases. [parameter]"""
        return self.n * self.k + self.biased


@dataclass(frozen=True, slots=True)
class Mlp:
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
    def other_parameters(self) -> int:
        """Parameters that are not in a matrix: none. [parameter]"""
        return 0


SHARED: Final = frozenset({"shared-gate", "shared-gate-up", "shared-up", "shared-down"})
"""Roles of the matrices of the expert that all tokens meet."""


@dataclass(frozen=True, slots=True)
class Moe:
    """Mixture of experts: a router sends each token to k of E feed-forward parts."""

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
            out.append(Linear("shared-gate", 1, d_model, split="none"))
        if self.shared_width:
            n = self.shared_width * (2 if self.gated else 1)
            name = "shared-gate-up" if self.gated else "shared-up"
            out.append(Linear(name, n, d_model))
            out.append(Linear("shared-down", d_model, self.shared_width, split="row"))
        return tuple(out)

    def expert_linears(self, d_model: int) -> tuple[Linear, Linear]:
        """Matrices of one routed expert."""
        d = self.latent or d_model
        n = self.width * (2 if self.gated else 1)
        return (
            Linear("experts-gate-up" if self.gated else "experts-up", n, d, n * self.up_bias),
            Linear("experts-down", d, self.width, d * self.down_bias, "row"),
        )

    def expert_parameters(self, d_model: int) -> int:
        """All routed experts together. [parameter]"""
        return self.experts * sum(linear.parameters for linear in self.expert_linears(d_model))

    @property
    def other_parameters(self) -> int:
        """Weights of the norm at the latent width. [parameter]"""
        return self.latent * self.latent_norm
