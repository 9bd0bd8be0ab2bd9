"""Attention of a decoder to the outputs of an encoder, whose keys and values are made once."""

from typing import ClassVar

from roofline.model.linear import Linear
from roofline.model.mixer import TokenMixer
from roofline.part import Number, Part


class CrossAttention(TokenMixer, frozen=True):
    """Softmax attention to as many keys and values as the encoder has outputs.

    They are made when the prompt is, by matrices that stand behind the encoder; what is kept of a
    sequence does not grow.
    """

    stores_scores: ClassVar[bool] = True
    heads: int
    head_dim: int
    """Query heads N, each with keys and values of its own, and their width H. [1]"""
    positions: int
    """Outputs of the encoder. [1]"""
    biased: bool = True
    """True if both projections have biases."""

    @property
    def wide(self) -> int:
        """N·H. [1]"""
        return self.heads * self.head_dim

    @property
    def kv_elements(self) -> int:
        """None for a token of the decoder. [1]"""
        return 0

    @property
    def lasting_elements(self) -> int:
        """None for a token of the decoder. [1]"""
        return 0

    @property
    def fixed_elements(self) -> int:
        """Keys and values of a sequence: 2·N·H for each output of the encoder. [1]"""
        return 2 * self.wide * self.positions

    @property
    def other_parameters(self) -> int:
        """None. [parameter]"""
        return 0

    @property
    def window(self) -> int | None:
        """None: a query sees all of them."""
        return None

    @property
    def label(self) -> str:
        """Attention to the encoder."""
        return "attention to the encoder"

    @property
    def score_heads(self) -> int:
        """Query heads N. [1]"""
        return self.heads

    @property
    def context_bound(self) -> str:
        """Keys and values of the encoder."""
        return "keys and values of an encoder"

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Projections of queries and outputs."""
        query = Linear("cross-q", self.wide, d_model, self.wide if self.biased else 0)
        out = Linear("cross-out", d_model, self.wide, d_model if self.biased else 0, "row")
        return query, out

    def kept(
        self, context: Number, *, tp: Number, kv: float, width: float, whole: bool = False
    ) -> Part:
        """Keys and values of all outputs of the encoder. [B]"""
        return Part(
            "layers that attend to the encoder",
            self.fixed_elements / tp * kv + 0.0 * context,
            "2 · N · H · positions · bytes[ / TP]",
            {"N": self.heads, "H": self.head_dim, "positions": self.positions, "bytes": kv}
            | {"TP": tp},
        )

    def activation_width(self, tp: Number) -> Number:
        """Queries and outputs. [1]"""
        return 2.0 * self.wide / tp

    def other_share(self, tp: Number) -> Number:
        """None. [parameter]"""
        return 0.0
