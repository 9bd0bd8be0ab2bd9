"""The protocol of mixers, and softmax attention, the one that most networks have.

A mixer says its matrices, cache or state, activations, and what devices can share. Each other kind
is one class, in a module of its own, which inherits `TokenMixer`; its operators are one function of
`roofline.cost.layers`.
"""

from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np
from msgspec import Struct

from roofline.model.linear import Linear
from roofline.part import Number, Part

INDEX_SCALE_BYTES = 4
"""An index key is kept in fp8 with one fp32 scale. Source: DeepSeek-V3.2 (2025), inference code."""


class Indexer(Struct, frozen=True):
    """Lightning indexer of sparse attention: scores all keys cheaply, the best few are attended."""

    heads: int
    head_dim: int
    """Heads of the index queries and their width; there is one index key per token. [1]"""
    top_k: int
    """Keys that attention reads at most. [token]"""
    query_width: int
    """Width that index queries are projected from. [1]"""
    norm_parameters: int = 0
    """Weights and biases of the norm on index keys. [parameter]"""
    computes: bool = True
    """False in a layer that takes over the choice of an earlier one: no index of its own."""
    weighted: bool = True
    """True if a projection weighs the heads against each other."""
    key_bytes: int | None = None
    """Size of an index key where it is not in fp8 with its scale. [B]"""

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Index queries, index key, and the weight of each index head; on every device."""
        if not self.computes:
            return ()
        weights = (Linear("index-weights", self.heads, d_model, split="none"),)
        return (
            Linear("index-q", self.heads * self.head_dim, self.query_width, split="none"),
            Linear("index-k", self.head_dim, d_model, split="none"),
            *(weights if self.weighted else ()),
        )

    @property
    def other_parameters(self) -> int:
        """Parameters of the norm. [parameter]"""
        return self.norm_parameters if self.computes else 0

    @property
    def bytes_per_token(self) -> int:
        """Index key, in fp8 with its scale unless said otherwise. [B]"""
        if not self.computes:
            return 0
        return self.head_dim + INDEX_SCALE_BYTES if self.key_bytes is None else self.key_bytes


class Mixer(Protocol):
    """A part of a layer that mixes tokens, described without a device.

    ``tp`` is the number of devices that share the layer.
    """

    keeps_state: ClassVar[bool]
    """True if a state of constant size is kept, and nothing of each token."""
    keeps_positions: ClassVar[bool]
    """False if entries of the cache stand for several tokens."""
    latent_forms: ClassVar[bool]
    """True if keys and values may be expanded from a latent or attended to inside it."""
    stores_scores: ClassVar[bool]
    """True if it is priced where scores go through memory, or has none."""
    fixed_width: ClassVar[bool]
    """True if its own widths do not follow from heads and the model's width."""

    @property
    def sees_all(self) -> bool:
        """True for softmax attention to all keys: no window, chunk, index or latent."""

    @property
    def label(self) -> str:
        """Kind of the layer in a few words: ``"attention in a window"``."""

    @property
    def heads(self) -> int:
        """Heads that devices divide between them. [1]"""

    @property
    def heads_name(self) -> str:
        """Name of these heads: ``"query heads"``."""

    @property
    def repeatable_heads(self) -> int:
        """Key/value heads, repeated where there are fewer than devices; 0 without them. [1]"""

    @property
    def score_heads(self) -> int:
        """Heads whose scores go through memory in naive attention. [1]"""

    @property
    def window(self) -> int | None:
        """Keys that a query sees, itself included; None for all. [token]"""

    @property
    def most_keys(self) -> int:
        """Keys that a query reads at most, for kernels that are told it; 0 for all. [token]"""

    @property
    def index(self) -> Indexer | None:
        """Indexer that chooses keys; None without one."""

    @property
    def context_bound(self) -> str:
        """Part that devices sharing a context cannot divide, ``"a recurrent state"``; or empty."""

    @property
    def encodes(self) -> bool:
        """True if tokens are computed once, all together, and nothing is kept."""

    @property
    def kv_elements(self) -> int:
        """Elements cached per token inside every window. [1]"""

    @property
    def lasting_elements(self) -> int:
        """Elements that each token adds to the cache, however long the context. [1]"""

    @property
    def state_elements(self) -> int:
        """Recurrent state of a sequence. [1]"""

    @property
    def other_parameters(self) -> int:
        """Parameters beside matrices and their biases. [parameter]"""

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Matrices that every token is multiplied with."""

    def kept(
        self, context: Number, *, tp: Number, kv: float, width: float, whole: bool = False
    ) -> Part:
        """Cache or state of one sequence on one device, with its formula. [B]

        Args:
            context: Tokens of the sequence. [token]
            tp: Devices that share the layer. [1]
            kv, width: Bytes per element of the cache, and of activations. [B]
            whole: Whether every token is kept, as where all layers have one table of pages.
        """

    def state_bytes(self, width: float) -> float:
        """Recurrent state of a sequence; what is kept in no format of its own is so wide. [B]"""

    def activation_width(self, tp: Number) -> Number:
        """Inputs and outputs alive at once, per token on one device. [1]"""

    def repeated(self, linear: Linear, tp: Number) -> Number:
        """Size of a matrix over that without repeated heads. [1]"""

    def repeated_biases(self, tp: Number) -> Number:
        """Biases on one device of matrices whose heads may repeat. [parameter]"""

    def other_share(self, tp: Number) -> Number:
        """`other_parameters` on one device. [parameter]"""

    def adapter_modules(self, role: str) -> int | None:
        """Layers of a checkpoint that a role's matrix joins; None where it is as for any kind."""


class TokenMixer(Struct, frozen=True):
    """Answers to `Mixer` that hold for most kinds: a class of its own states the rest."""

    keeps_state: ClassVar[bool] = False
    keeps_positions: ClassVar[bool] = True
    latent_forms: ClassVar[bool] = False
    stores_scores: ClassVar[bool] = False
    fixed_width: ClassVar[bool] = False

    @property
    def sees_all(self) -> bool:
        """False unless queries meet all keys before them."""
        return False

    @property
    def heads_name(self) -> str:
        """Queries have the heads."""
        return "query heads"

    @property
    def repeatable_heads(self) -> int:
        """None. [1]"""
        return 0

    @property
    def score_heads(self) -> int:
        """None. [1]"""
        return 0

    @property
    def index(self) -> Indexer | None:
        """None."""
        return None

    @property
    def most_keys(self) -> int:
        """Keys that an index chooses. [token]"""
        return self.index.top_k if self.index is not None else 0

    @property
    def context_bound(self) -> str:
        """The index, where there is one."""
        return "an index or summaries" if self.index is not None else ""

    @property
    def encodes(self) -> bool:
        """False: something is kept."""
        return False

    @property
    def state_elements(self) -> int:
        """Recurrent state of a sequence: none. [1]"""
        return 0

    def state_bytes(self, width: float) -> float:
        """None. [B]"""
        return 0.0

    def repeated(self, linear: Linear, tp: Number) -> Number:
        """No heads are repeated. [1]"""
        return 1.0

    def repeated_biases(self, tp: Number) -> Number:
        """None. [parameter]"""
        return 0.0

    def adapter_modules(self, role: str) -> int | None:
        """As for any kind."""
        return None


def cache(
    name: str,
    formula: str,
    symbols: Mapping[str, Number],
    context: Number,
    *,
    token_bytes: Number,
    growing: float = 0.0,
    span: int | None,
    index: Indexer | None,
) -> Part:
    """Cache of one sequence in one layer on one device, keys of an index included. [B]

    Tokens that are still reached, min(S, W) of them, and what each token adds for good.

    Args:
        name, formula, symbols: Of the part; ``{S}`` stands for the tokens that are reached.
        context: Tokens of the sequence. [token]
        token_bytes: Bytes of a token that is reached. [B]
        growing: Bytes that each token adds for good. [B]
        span: Tokens that are reached at most; None for all. [token]
        index: Indexer whose keys are kept beside; None without one.
    """
    terms, tokens = dict(symbols), context
    if span is not None:
        tokens = np.minimum(context, float(span))
        terms["W"] = span
    held = token_bytes * tokens
    if index is not None and index.bytes_per_token:
        each = float(index.bytes_per_token)
        growing, formula, terms["index bytes"] = (
            growing + each,
            f"({formula} + index bytes · S)",
            each,
        )
    held = held + growing * context if growing else held
    return Part(name, held, formula.format(S="S" if span is None else "min(S, W)"), terms)


class Attention(TokenMixer, frozen=True):
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
