"""The protocol of mixers: matrices, cache or state, activations, and what devices can share.

A kind of mixer is one class, in a module of its own, which inherits `TokenMixer`; its operators are
one function of `roofline.cost.layers`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from roofline.model.linear import Linear
from roofline.part import Number, Part

INDEX_SCALE_BYTES = 4
"""An index key is kept in fp8 with one fp32 scale. Source: DeepSeek-V3.2 (2025), inference code."""


@dataclass(frozen=True, slots=True)
class Indexer:
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


class TokenMixer:
    """Answers to `Mixer` that hold for most kinds: a class of its own states the rest."""

    __slots__ = ()
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
