"""Cost of a step as vLLM counts it: the rules of its own FLOP and byte counters, written out again.

Source: vLLM @00cee63 (Apache-2.0), ``vllm/v1/metrics/perf.py``, what ``--enable-mfu-metrics``
reports; its pull requests 30738 (attention, feed-forward, unembedding), 39457 (MLA) and 55624
(windows). Only the rules are taken, and applied here to networks typed in from their
``config.json``, on one device. The rules, in the symbols of that file's readers:

- T new tokens of all sequences, C the sum of their contexts, TC the sum of tokens times context:
  the whole square, whatever the mask. A windowed layer has min(context, window) for context.
- Every operand is read and every output written once, in the activations' 2 bytes; weights have the
  bytes of the quantisation's name and no scales; the cache has its own width.
- Attention reads queries, keys and values. Keys and values of a step with prompts are activations,
  those of decode come from the cache. Its output is not counted as written.
- MLA counts the expanded form always, and reads the latent cache in decode.
- Routed experts: as many are read as there are routed tokens, up to all.
- Shared experts add up, save that the input of their last matrix counts once for all of them.
- The unembedding sees the last token of a prompt and every decoded token, in 2 byte weights.
- Embedding, norms, rotary embedding, router, sums over experts and conversions are left out.
"""

from dataclasses import dataclass
from typing import Final

ACTIVATION: Final = 2
"""Width of an activation. [B]"""


@dataclass(frozen=True)
class Network:
    """Geometry from a ``config.json``; 0 for what a network does not have."""

    name: str
    layers: int
    d: int
    heads: int
    vocab: int
    ff: int = 0
    kv_heads: int = 0
    head: int = 0
    window: int = 0
    windowed: int = 0
    moe_layers: int = 0
    experts: int = 0
    active: int = 0
    expert_ff: int = 0
    shared: int = 0
    latent: int = 0
    rope: int = 0
    nope: int = 0
    value: int = 0
    query_rank: int = 0
    weight: float = 2
    cache: float = 2

    @property
    def dense_layers(self) -> int:
        return self.layers - self.moe_layers


@dataclass(frozen=True)
class Batch:
    """Equal sequences in a step: new tokens of each and the context that the last one sees."""

    sequences: int
    new: int
    context: int

    @property
    def decodes(self) -> bool:
        return self.new == 1

    @property
    def tokens(self) -> int:
        return self.sequences * self.new

    @property
    def rows(self) -> int:
        """Rows of the unembedding."""
        return self.sequences

    def keys(self, window: int = 0) -> int:
        """Sum of contexts."""
        return self.sequences * (min(self.context, window) if window else self.context)


@dataclass(frozen=True)
class Count:
    """FLOPs, bytes of weights, and bytes of activations and cache, read or written."""

    flops: float = 0
    weights: float = 0
    moved: float = 0


def product(rows: float, wide: float, deep: float, weight: float) -> Count:
    """A matrix product, its input and its output."""
    return Count(2 * rows * wide * deep, wide * deep * weight, rows * (wide + deep) * ACTIVATION)


def times(number: float, *counts: Count) -> Count:
    return Count(
        number * sum(each.flops for each in counts),
        number * sum(each.weights for each in counts),
        number * sum(each.moved for each in counts),
    )


def accounting(n: Network, b: Batch) -> dict[str, Count]:
    """Counts of a step by component, all layers."""
    attention = latent_attention(n, b) if n.latent else grouped_attention(n, b)
    unembed = product(b.rows, n.vocab, n.d, weight=2)
    return {**attention, **feed_forward(n, b), "unembed": unembed}


def grouped_attention(n: Network, b: Batch) -> dict[str, Count]:
    keys_and_values = 2 * n.kv_heads * n.head
    queries = n.heads * n.head
    width = n.cache if b.decodes else ACTIVATION

    def attended(window: int) -> Count:
        keys = b.keys(window)
        return Count(
            flops=4 * queries * b.new * keys,
            moved=b.tokens * queries * ACTIVATION + keys * keys_and_values * width,
        )

    full = n.layers - n.windowed
    return {
        "qkv": times(n.layers, product(b.tokens, queries + keys_and_values, n.d, n.weight)),
        "attention": times(1, times(full, attended(0)), times(n.windowed, attended(n.window))),
        "cache write": times(n.layers, Count(moved=b.tokens * keys_and_values * n.cache)),
        "out": times(n.layers, product(b.tokens, n.d, queries, n.weight)),
    }


def latent_attention(n: Network, b: Batch) -> dict[str, Count]:
    query = n.nope + n.rope
    cached = n.latent + n.rope
    into = [product(b.tokens, cached, n.d, n.weight)]
    if n.query_rank:
        into.append(product(b.tokens, n.query_rank, n.d, n.weight))
    keys = b.keys()
    read = keys * (cached * n.cache if b.decodes else n.heads * (query + n.value) * ACTIVATION)
    attended = Count(
        flops=2 * n.heads * b.new * keys * (query + n.value),
        moved=b.tokens * n.heads * query * ACTIVATION + read,
    )
    up = product(b.tokens, n.heads * (n.nope + n.value), n.latent, n.weight)
    return {
        "latent": times(n.layers, *into),
        "query": times(n.layers, product(b.tokens, n.heads * query, n.query_rank or n.d, n.weight)),
        "kv up": times(n.layers, up),
        "attention": times(n.layers, attended),
        "cache write": times(n.layers, Count(moved=b.tokens * cached * n.cache)),
        "out": times(n.layers, product(b.tokens, n.d, n.heads * n.value, n.weight)),
    }


def gated(rows: float, d: float, inner: float, weight: float) -> Count:
    """Up and gate, activation function, down."""
    return times(
        1,
        product(rows, 2 * inner, d, weight),
        Count(moved=rows * (2 * inner + inner) * ACTIVATION),
        product(rows, d, inner, weight),
    )


def feed_forward(n: Network, b: Batch) -> dict[str, Count]:
    out = {}
    if n.dense_layers:
        out["dense"] = times(n.dense_layers, gated(b.tokens, n.d, n.ff, n.weight))
    if n.moe_layers:
        rows = b.tokens * n.active
        one = gated(rows, n.d, n.expert_ff, n.weight)
        met = min(rows, n.experts)
        out["routed"] = times(n.moe_layers, Count(one.flops, one.weights * met, one.moved))
    if n.shared:
        every = times(n.shared, gated(b.tokens, n.d, n.expert_ff, n.weight))
        once = (n.shared - 1) * b.tokens * (n.expert_ff + n.d) * ACTIVATION
        out["shared"] = times(n.moe_layers, Count(every.flops, every.weights, every.moved - once))
    return out
