"""Multi-head latent attention."""

from typing import ClassVar

from roofline.model.linear import Linear
from roofline.model.mixer import Indexer, TokenMixer, cache
from roofline.part import Number, Part


class Mla(TokenMixer, frozen=True):
    """Multi-head latent attention: keys and values are expanded from one cached latent."""

    latent_forms: ClassVar[bool] = True
    heads: int
    """N. [1]"""
    query_rank: int
    """Width of the latent that queries are expanded from; 0 for a direct projection. [1]"""
    latent: int
    """Cached width C that keys and values share. [1]"""
    nope_dim: int
    rope_dim: int
    """Widths of a query or key head without and with rotation; the rotated key is one for all
    heads, and cached beside the latent. [1]"""
    value_dim: int
    """Width of a value head. [1]"""
    norm_parameters: int = 0
    """Weights of the norms on the latents. [parameter]"""
    biased: int = 0
    """Outputs of the projections into the latents with a bias. [1]"""
    out_bias: bool = False
    """True if the output projection has a bias."""
    gate: bool = False
    """True if a projection as wide as the values gates the output."""
    index: Indexer | None = None
    """Chooses the tokens that are attended, for sparse attention."""

    @property
    def window(self) -> None:
        """No window. [token]"""
        return

    @property
    def query_width(self) -> int:
        """N times the width of a query head. [1]"""
        return self.heads * (self.nope_dim + self.rope_dim)

    @property
    def kv_elements(self) -> int:
        """Cached per token: the latent and the rotated key. [1]"""
        return self.latent + self.rope_dim

    @property
    def other_parameters(self) -> int:
        """Norms on the latents and on index keys. [parameter]"""
        return self.norm_parameters + (self.index.other_parameters if self.index else 0)

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Down into the latents (fused, on every device), up for queries, keys and values, out."""
        down = self.query_rank + self.kv_elements
        up = self.heads * (self.nope_dim + self.value_dim)
        values = self.heads * self.value_dim
        query = (
            Linear("q-up", self.query_width, self.query_rank)
            if self.query_rank
            else Linear("q", self.query_width, d_model)
        )
        gate = (Linear("attn-gate", values, d_model),) if self.gate else ()
        index = self.index.linears(d_model) if self.index else ()
        return (
            Linear("latent-down", down, d_model, self.biased, "none"),
            query,
            Linear("kv-up", up, self.latent),
            *gate,
            *index,
            Linear("attn-out", d_model, values, d_model if self.out_bias else 0, "row"),
        )

    @property
    def label(self) -> str:
        """Latent attention."""
        return "latent attention"

    @property
    def lasting_elements(self) -> int:
        """All that is cached. [1]"""
        return self.kv_elements

    def kept(
        self, context: Number, *, tp: Number, kv: float, width: float, whole: bool = False
    ) -> Part:
        """The latent and the rotated key of each token, whole on every device. [B]"""
        return cache(
            "latent attention layers",
            "(C + r) · {S} · bytes",
            {"S": context, "bytes": kv, "C": self.latent, "r": self.rope_dim},
            context,
            token_bytes=self.kv_elements * kv,
            span=None,
            index=self.index,
        )

    def activation_width(self, tp: Number) -> Number:
        """Queries, expanded keys and values, outputs, and the latents. [1]"""
        inner = self.heads * (2 * self.nope_dim + self.rope_dim + 2 * self.value_dim) / tp
        return inner + self.query_rank + self.kv_elements

    def other_share(self, tp: Number) -> Number:
        """All of them: norms on latents and index keys. [parameter]"""
        return self.other_parameters

    def adapter_modules(self, role: str) -> int | None:
        """One joins the matrix into the latents where queries have no latent."""
        return 1 if role == "latent-down" and not self.query_rank else None
