"""Softmax attention with a cache of keys and values: full, windowed, in chunks or sparse."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from roofline.model.linear import Linear
from roofline.model.mixer import Indexer, TokenMixer, cache
from roofline.part import Number, Part


@dataclass(frozen=True, slots=True)
class Attention(TokenMixer):
    """Softmax attention with a KV cache: MHA (K = N), GQA, MQA (K = 1)."""

    stores_scores: ClassVar[bool] = True
    heads: int
    kv_heads: int
    """Query heads N and key/value heads K. [1]"""
    head_dim: int
    """Width H of a head. [1]"""
    window: int | None = None
    """Keys a query sees, itself included; None sees all. [token]"""
    qkv_biased: int = 0
    out_bias: bool = False
    """Outputs of the q, k, v projections with a bias [1]; whether the output projection has one."""
    norm_parameters: int = 0
    """Weights of norms on queries and keys (qk-norm). [parameter]"""
    rotary: bool = True
    """True if queries and keys are rotated."""
    value_dim: int | None = None
    """Width of a value head where it is not H. [1]"""
    chunk: int | None = None
    """Keys are seen only inside the query's own chunk of this many tokens. [token]"""
    gate: bool = False
    """True if a projection as wide as the queries gates the output (fused into qkv)."""
    head_gate: bool = False
    """True if one number gates each head's output (fused into qkv)."""
    keys_are_values: bool = False
    """True if one projection makes both keys and values; both are cached."""
    reuses_kv: bool = False
    """True if the layer reads the cache of an earlier one (CLA): no keys and values of its own."""
    sink_parameters: int = 0
    """Learned attention sinks. [parameter]"""
    index: Indexer | None = None
    """Chooses the keys that are attended, for sparse attention."""
    cached: bool = True
    """False in an encoder: keys and values serve one pass and are not kept."""
    input_width: int = 0
    """Width that q, k and v are projected from where it is not D: 2·D where the embedding is read
    again beside the residual stream (Zamba); 0 for D. [1]"""

    @property
    def sees_all(self) -> bool:
        """True where queries see all keys before them: no window, chunk or index."""
        return self.window is None and self.chunk is None and self.index is None

    @property
    def value_width(self) -> int:
        """Width of one value head. [1]"""
        return self.head_dim if self.value_dim is None else self.value_dim

    @property
    def query_width(self) -> int:
        """N·H. [1]"""
        return self.heads * self.head_dim

    @property
    def out_width(self) -> int:
        """N times the width of a value head. [1]"""
        return self.heads * self.value_width

    @property
    def kv_read_elements(self) -> int:
        """Elements read per cached token: keys and values, 2·K·H where both are as wide. [1]"""
        return self.kv_heads * (self.head_dim + self.value_width)

    @property
    def kv_elements(self) -> int:
        """Elements this layer caches per token. [1]"""
        return self.kv_read_elements if self.cached and not self.reuses_kv else 0

    @property
    def projected_kv(self) -> int:
        """Key and value outputs of the projection. [1]"""
        if self.reuses_kv:
            return 0
        return self.kv_heads * self.head_dim if self.keys_are_values else self.kv_read_elements

    @property
    def other_parameters(self) -> int:
        """Norms, sinks and the indexer's norm. [parameter]"""
        inner = self.index.other_parameters if self.index else 0
        return self.norm_parameters + self.sink_parameters + inner

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Projections q, k, v and gate (fused, as engines run them) and the output projection."""
        gates = (self.out_width if self.gate else 0) + (self.heads if self.head_gate else 0)
        n = self.query_width + self.projected_kv + gates
        out = Linear("attn-out", d_model, self.out_width, d_model if self.out_bias else 0, "row")
        index = self.index.linears(d_model) if self.index else ()
        return (Linear("qkv", n, self.input_width or d_model, self.qkv_biased), *index, out)

    @property
    def label(self) -> str:
        """Attention to all keys, or in a window."""
        return "attention" if self.window is None else "attention in a window"

    @property
    def repeatable_heads(self) -> int:
        """Key/value heads K. [1]"""
        return self.kv_heads

    @property
    def score_heads(self) -> int:
        """Query heads N. [1]"""
        return self.heads

    @property
    def most_keys(self) -> int:
        """Keys that an index chooses, or a window lets through. [token]"""
        return (self.index.top_k if self.index is not None else 0) or self.window or 0

    @property
    def encodes(self) -> bool:
        """True in an encoder."""
        return not self.cached

    @property
    def lasting_elements(self) -> int:
        """None in a window or chunk. [1]"""
        return 0 if self.window is not None or self.chunk is not None else self.kv_elements

    def kept(
        self, context: Number, *, tp: Number, kv: float, width: float, whole: bool = False
    ) -> Part:
        """Keys and values of K heads, of the last tokens where there is a window. [B]"""
        name, text = "attention layers", "K[ · share] · (H + V) · {S} · bytes"
        if not self.kv_elements:
            name = "layers that read another's cache" if self.reuses_kv else f"{name} of an encoder"
            text = ""
        share = self.kv_heads_per_device(tp) / self.kv_heads
        symbols = {"S": context, "bytes": kv, "K": self.kv_heads, "share": share}
        symbols |= {"H": self.head_dim, "V": self.value_width}
        span = self.window if self.window is not None else self.chunk
        return cache(
            name,
            text,
            symbols,
            context,
            token_bytes=self.kv_elements * share * kv,
            span=None if whole else span,
            index=self.index,
        )

    def activation_width(self, tp: Number) -> Number:
        """Queries, keys, values and outputs. [1]"""
        keys = self.kv_heads_per_device(tp) * (self.head_dim + self.value_width)
        return (self.query_width + self.out_width) / tp + keys

    def kv_heads_per_device(self, tp: Number) -> Number:
        """Key/value heads on one device: max(K / TP, 1), so that each device has one. [1]"""
        return np.maximum(self.kv_heads / tp, 1.0)

    def repeated(self, linear: Linear, tp: Number) -> Number:
        """Size of the fused q, k, v matrix over that without repeated key/value heads. [1]"""
        if linear.name != "qkv":
            return 1.0
        repeats = self.kv_heads_per_device(tp) * tp / self.kv_heads
        return (linear.n + (repeats - 1) * self.projected_kv) / linear.n

    def repeated_biases(self, tp: Number) -> Number:
        """Biases of q, k and v: of the queries first, where only some outputs have one. [1]

        Biases go with the rows of their matrix: those of repeated heads repeat.
        """
        queries = min(self.qkv_biased, self.query_width)
        repeated = self.kv_heads_per_device(tp) / self.kv_heads
        return queries / tp + (self.qkv_biased - queries) * repeated

    def other_share(self, tp: Number) -> Number:
        """All of them: norms, sinks, the indexer's norm. [parameter]"""
        return self.other_parameters

    def adapter_modules(self, role: str) -> int | None:
        """Queries, keys, values and gates of heads, which one matrix joins."""
        if role != "qkv":
            return None
        own = 0 if self.reuses_kv else 1 if self.keys_are_values else 2
        return 1 + own + self.head_gate
