"""Mixers that keep a state of constant size: state-space layers and linear attention.

All of them keep, per head, a matrix that maps a key of width R to a value of width P, and update it
by one token at a time: S ← decay · S + k vᵀ, y = Sᵀ q. Mamba-1 is the case of one channel per head
(P = 1), Mamba-2 and linear attention have P of a head. What differs is which projections make q, k,
v and the decay, which is why those are data here and not code.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from roofline.model.linear import Linear

Rule: TypeAlias = Literal["decay", "delta"]


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A layer with a recurrent state.

    Attributes
    ----------
    kind
        ``"mamba1"``, ``"mamba2"``, ``"gated-delta"``, ``"lightning"``, ``"based"``, ``"s4"``.
    heads
        Heads with a state of their own; channels for Mamba-1 and S4. [1]
    key_dim, value_dim
        Widths R and P of the state of one head. [1]
    key_heads
        Heads that keys and queries are computed for; groups of heads share them. [1]
    projections
        All matrices of the layer, the output projection last.
    other_parameters
        Convolution, decays, norms, biases that are not a matrix's. [parameter]
    conv_width, conv_kernel
        Channels of the short convolution before the state, and its taps; 0 without one. [1]
    rule
        ``"decay"``: S ← aS + k vᵀ. ``"delta"``: the old value under the key is removed first.
    chunk
        Tokens that prefill computes together as a matrix product; 1 where it scans instead. [token]
    state_format
        Number format that the state is kept in.
    """

    kind: str
    heads: int
    key_dim: int
    value_dim: int
    key_heads: int
    projections: tuple[Linear, ...]
    other_parameters: int = 0
    conv_width: int = 0
    conv_kernel: int = 0
    rule: Rule = "decay"
    chunk: int = 64
    state_format: str = "bf16"

    @property
    def window(self) -> None:
        """No window. [token]"""
        return

    @property
    def kv_elements(self) -> int:
        """Cached per token: nothing. [1]"""
        return 0

    @property
    def matrix_elements(self) -> int:
        """State matrices of all heads. [1]"""
        return self.heads * self.key_dim * self.value_dim

    @property
    def state_elements(self) -> int:
        """State of a sequence: matrices, and the last inputs of the convolution. [1]"""
        return self.matrix_elements + self.conv_width * max(self.conv_kernel - 1, 0)

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """All matrices; ``d_model`` is already in them."""
        return self.projections
