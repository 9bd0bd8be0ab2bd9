"""Mixers that attend to a cache: full, windowed, sparse, latent and compressed attention."""

from dataclasses import dataclass

from roofline.model.linear import Linear

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


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with a KV cache: MHA (K = N), GQA, MQA (K = 1)."""

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
    def state_elements(self) -> int:
        """Recurrent state of a sequence: none. [1]"""
        return 0

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
        return (Linear("qkv", n, d_model, self.qkv_biased), *index, out)


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: keys and values are expanded from one cached latent."""

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
    def state_elements(self) -> int:
        """Recurrent state of a sequence: none. [1]"""
        return 0

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


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """One key/value head, whose older tokens are kept as one entry for every few of them.

    A query sees the last tokens as they are, and entries of all completed groups before: all of
    them, or the few that an index chooses. The key is also the value, and is cached once. Tokens
    of a group that is not complete yet are a few rows per sequence, and left out of the cache.

    References:
        DeepSeek-AI (2026), "DeepSeek-V4", section 2.3.
    """

    heads: int
    head_dim: int
    """Query heads N and the width H of all heads. [1]"""
    query_rank: int
    """Width of the latent that queries are expanded from. [1]"""
    window: int
    """Tokens that are seen as they are, the query's own included. [token]"""
    out_groups: int
    out_rank: int
    """Groups of heads that are projected apart before the output projection, and the width of
    each. [1]"""
    ratio: int = 0
    """Tokens per entry; 0 without entries. [token]"""
    series: int = 1
    """Entries that a token contributes to: 2 where groups overlap. [1]"""
    index: Indexer | None = None
    """Chooses entries; its keys are entries of their own, made from the same groups."""

    @property
    def query_width(self) -> int:
        """N·H. [1]"""
        return self.heads * self.head_dim

    @property
    def entry_elements(self) -> int:
        """Elements of entries per token: what the cache grows by beyond the window. [1]"""
        return self.head_dim // self.ratio if self.ratio else 0

    @property
    def kv_elements(self) -> int:
        """Elements cached per token inside the window: the token itself, and its entry. [1]"""
        return self.head_dim + self.entry_elements

    @property
    def state_elements(self) -> int:
        """Recurrent state of a sequence: none. [1]"""
        return 0

    @property
    def other_parameters(self) -> int:
        """Norms, sinks, and the place of a token in its group. [parameter]"""
        own = self.query_rank + self.head_dim + self.heads
        entries = self._entry_parameters(self.head_dim)
        return own + entries + (self._entry_parameters(self.index.head_dim) if self.index else 0)

    def _entry_parameters(self, width: int) -> int:
        return (self.ratio * self.series + 1) * width if self.ratio else 0

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Latent and key, queries, entries and their weights, index, output in two steps."""
        groups = self.out_groups * self.out_rank
        out = [
            Linear("latent-down", self.query_rank + self.head_dim, d_model, split="none"),
            Linear("q-up", self.query_width, self.query_rank),
        ]
        if self.ratio:
            width = 2 * self.series * self.head_dim
            out.append(Linear("compress-kv", width, d_model, split="none"))
        if self.index:
            index = self.index
            width = 2 * self.series * index.head_dim
            out += [
                Linear("index-q", index.heads * index.head_dim, self.query_rank, split="none"),
                Linear("index-k", width, d_model, split="none"),
                Linear("index-weights", index.heads, d_model, split="none"),
            ]
        # Each of the groups' outputs reads the heads of its own group only.
        out.append(Linear("attn-out-down", groups, self.query_width // self.out_groups))
        out.append(Linear("attn-out-up", d_model, groups, split="row"))
        return tuple(out)
