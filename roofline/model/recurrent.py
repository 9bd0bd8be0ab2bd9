"""Mixers that keep a state of constant size: state-space layers and linear attention.

All of them keep, per head, a matrix that maps a key of width R to a value of width P, and update it
by one token at a time: S ← decay · S + k vᵀ, y = Sᵀ q. Mamba-1 is the case of one channel per head
(P = 1), Mamba-2 and linear attention have P of a head. What differs is which projections make q, k,
v and the decay, which is why those are data here and not code.
"""

from typing import ClassVar, Literal, TypeAlias

from roofline.model.linear import Linear
from roofline.model.mixer import TokenMixer
from roofline.model.precision import named
from roofline.part import Number, Part

Rule: TypeAlias = Literal["decay", "delta"]


class Recurrent(TokenMixer, frozen=True):
    """A layer with a recurrent state."""

    keeps_state: ClassVar[bool] = True
    stores_scores: ClassVar[bool] = True
    fixed_width: ClassVar[bool] = True
    kind: str
    """``"mamba1"``, ``"mamba2"``, ``"gated-delta"``, ``"lightning"``, ``"based"``, ``"s4"``,
    ``"h3"``, ``"retention"``."""
    heads: int
    """Heads with a state of their own; channels for Mamba-1, S4 and H3. [1]"""
    key_dim: int
    value_dim: int
    """Widths R and P of the state of one head. [1]"""
    key_heads: int
    """Heads that keys and queries are computed for; groups of heads share them. [1]"""
    projections: tuple[Linear, ...]
    """All matrices of the layer, the output projection last."""
    other_parameters: int = 0
    """Convolution, decays, norms, biases that are not a matrix's. [parameter]"""
    conv_width: int = 0
    conv_kernel: int = 0
    """Channels of the short convolution before the state, and its taps; 0 without one. [1]"""
    rule: Rule = "decay"
    """``"decay"``: S ← aS + k vᵀ. ``"delta"``: the old value under the key is removed first."""
    chunk: int = 64
    """Tokens that prefill computes together as a matrix product; 1 where it scans instead.
    [token]"""
    state_format: str = "bf16"
    """Number format that the state is kept in."""

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

    @property
    def label(self) -> str:
        """Kind of the state."""
        return self.kind

    @property
    def heads_name(self) -> str:
        """Heads with a state."""
        return f"{self.kind} heads"

    @property
    def context_bound(self) -> str:
        """The state, which each token needs from the one before."""
        return "a recurrent state"

    @property
    def lasting_elements(self) -> int:
        """Nothing. [1]"""
        return 0

    def kept(
        self, context: Number, *, tp: Number, kv: float, width: float, whole: bool = False
    ) -> Part:
        """State matrices and the last inputs of the convolution, divided by heads. [B]"""
        return Part(
            f"{self.kind} layers",
            self.state_bytes(width) / tp,
            "(h · n · p · state bytes + last inputs of the convolution · width)[ / TP]",
            {
                "h": self.heads,
                "n": self.key_dim,
                "p": self.value_dim,
                "TP": tp,
                "state bytes": named(self.state_format).width,
                "last inputs of the convolution": self.state_elements - self.matrix_elements,
                "width": width,
            },
            "the same whatever the context",
        )

    def state_bytes(self, width: float) -> float:
        """Matrices in their own format, last inputs of the convolution as wide as said. [B]"""
        taps = self.state_elements - self.matrix_elements
        return self.matrix_elements * named(self.state_format).width + taps * width

    def activation_width(self, tp: Number) -> Number:
        """Outputs of all matrices but the last. [1]"""
        return sum(linear.n for linear in self.projections[:-1]) / tp

    def other_share(self, tp: Number) -> Number:
        """The convolution and decays go with their heads. [parameter]"""
        return self.other_parameters * (1.0 / tp)


def s4(d_model: int, states: int) -> Recurrent:
    """Structured state space of every channel, then a mix of the channels.

    Source: Gu et al. 2021 (arXiv 2111.00396): decays, inputs and outputs of the state are weights.

    Args:
        d_model: Channels D. [1]
        states: Real numbers of the state of a channel: twice the complex ones. [1]

    Examples:
        >>> s4(1024, 64).state_elements
        65536
    """
    return Recurrent(
        kind="s4",
        heads=d_model,
        key_dim=states,
        value_dim=1,
        key_heads=0,
        projections=(Linear("s4-out", d_model, d_model, d_model),),
        other_parameters=d_model * (3 * states + 2),
        chunk=1,
    )


def h3(d_model: int, states: int) -> Recurrent:
    """Two state spaces between products: one shifts keys, one sums up keys times values.

    The shift is a convolution of as many taps as it has states; the other has diagonal decays.

    Source: Fu et al. 2022 (arXiv 2212.14052), section 3.1, with heads of one channel.

    Args:
        d_model: Channels D. [1]
        states: Real numbers of either state of a channel. [1]

    Examples:
        >>> h3(1024, 64).state_elements == 1024 * 64 + 1024 * 63
        True
    """
    return Recurrent(
        kind="h3",
        heads=d_model,
        key_dim=states,
        value_dim=1,
        key_heads=0,
        projections=(
            Linear("qkv", 3 * d_model, d_model),
            Linear("attn-out", d_model, d_model, split="row"),
        ),
        other_parameters=d_model * (states + 3 * states + 2),
        conv_width=d_model,
        conv_kernel=states,
        chunk=1,
    )


def retention(d_model: int, heads: int, head_dim: int) -> Recurrent:
    """Linear attention with a fixed decay of each head, values twice as wide as keys, and a gate.

    Source: Sun et al. 2023 (arXiv 2307.08621), sections 2 and 3.1; chunks of 512 tokens.

    Args:
        d_model, heads: Model width and heads. [1]
        head_dim: Width of queries and keys. [1]

    Examples:
        Where heads are as wide as the model, 8·D² parameters:

        >>> sum(each.parameters for each in retention(1024, 4, 256).projections) == 8 * 1024**2
        True
    """
    return Recurrent(
        kind="retention",
        heads=heads,
        key_dim=head_dim,
        value_dim=2 * head_dim,
        key_heads=heads,
        projections=(
            Linear("qkv-gate", heads * 6 * head_dim, d_model),
            Linear("attn-out", d_model, heads * 2 * head_dim, split="row"),
        ),
        chunk=512,
    )


def based(d_model: int, heads: int, feature_dim: int, head_dim: int) -> Recurrent:
    """Linear attention with the second-order Taylor map of the exponential, as in BASED.

    A query or key of d features becomes 1 + d + d², so that their products follow the exponential.
    BASED has such layers beside layers with a small window.

    Source: Arora et al. 2024 (arXiv 2402.18668), section 4.

    Args:
        d_model, heads: Model width and heads. [1]
        feature_dim, head_dim: Width d of queries and keys, and of values. [1]

    Examples:
        Sixteen features make 273; sixteen heads with values of 64:

        >>> based(1024, 16, 16, 64).state_elements == 16 * 273 * 64
        True
    """
    projected = heads * (2 * feature_dim + head_dim)
    return Recurrent(
        kind="based",
        heads=heads,
        key_dim=1 + feature_dim + feature_dim**2,
        value_dim=head_dim,
        key_heads=heads,
        projections=(
            Linear("qkv", projected, d_model),
            Linear("attn-out", d_model, heads * head_dim, split="row"),
        ),
    )
