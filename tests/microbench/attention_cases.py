"""Attention on small shapes, against softmax(Q Kᵀ / √H) V in float64."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.bench.elements import fp8
from roofline.bench.gpu.attention import HOPPER, decode_attention, prefill_attention
from roofline.bench.gpu.launch import Element
from tests.microbench.case import Case
from tests.microbench.elements import ROUNDING, Array, nan, narrow, normal, widen

TOLERANCE: Final = 0.75
"""In largest roundings: two of a half each are not in step. Mistakes cost many."""


def attend(query: Array, keys: Array, values: Array, seen: Array) -> Array:
    """One head: query [T, H], keys and values [S, H], `seen` the keys that each query sees."""
    score = query @ keys.T / np.sqrt(query.shape[1])
    score = np.where(np.arange(len(keys)) < seen[:, None], score, -np.inf)
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    shares: Array = weight / weight.sum(axis=1, keepdims=True)
    return shares @ values


def reference(query: Array, keys: Array, values: Array, *, causal: bool) -> Array:
    """One sequence: query [T, N, H], keys and values [S, K, H]; the new tokens are the last."""
    new_tokens, heads, _ = query.shape
    context, kv_heads, _ = keys.shape
    seen = context - new_tokens + 1 + np.arange(new_tokens)
    if not causal:
        seen = np.full(new_tokens, context)
    out = [
        attend(
            query[:, head],
            keys[:, head * kv_heads // heads],
            values[:, head * kv_heads // heads],
            seen,
        )
        for head in range(heads)
    ]
    return np.stack(out, axis=1)


@dataclass(frozen=True)
class Decode:
    """A paged cache with pages in no order; what lies past a context is NaN."""

    contexts: tuple[int, ...]
    heads: tuple[int, int]
    new_tokens: int = 1
    splits: int = 1
    page_tokens: int = 16
    head_dim: int = 128
    element: Element = "bf16"
    spread: float = 1.0
    """Scale of the keys: with larger ones the maximum moves from tile to tile."""
    architecture: int = HOPPER
    narrow_cache: bool = False
    """Whether keys and values are e4m3."""

    def build(self, rng: np.random.Generator) -> Case:
        batch, (query_heads, kv_heads) = len(self.contexts), self.heads
        width = -(-max(self.contexts) // self.page_tokens)
        pages = rng.permutation(batch * width + 3)[: batch * width]
        table = pages.astype(np.int32).reshape(batch, width)
        shape = (batch * width + 3, self.page_tokens, kv_heads, self.head_dim)
        query_shape = (batch, self.new_tokens, query_heads, self.head_dim)
        query = normal(rng, query_shape, self.element)
        keys = self.cached(self.spread * rng.standard_normal(shape))
        values = self.cached(rng.standard_normal(shape))
        missing = self.cached(np.full(1, np.nan))
        expected = []
        for row, context in enumerate(self.contexts):
            flat = [widen(cache)[table[row]].reshape(-1, *shape[2:]) for cache in (keys, values)]
            cached = [cache[:context] for cache in flat]
            expected.append(reference(widen(query)[row], *cached, causal=True))
            for cache in (keys, values):
                for token in range(context, width * self.page_tokens):
                    page = table[row, token // self.page_tokens]
                    cache[page, token % self.page_tokens] = missing
        sums = (*query_shape[:-1], self.splits)
        arrays = {
            "query": query,
            "keys": keys,
            "values": values,
            "block_table": table,
            "contexts": np.array(self.contexts, np.int32),
            "output": nan(query_shape, self.element),
        }
        if self.splits > 1:
            arrays["partial_output"] = np.full((*sums, self.head_dim), np.nan, np.float32)
            arrays["partial_log_sum"] = np.full(sums, np.nan, np.float32)
        return Case(
            arrays,
            lambda placed: decode_attention(
                **placed, element=self.element, architecture=self.architecture
            ),
            "output",
            np.stack(expected),
            TOLERANCE * ROUNDING[self.element],
        )

    def cached(self, values: Array) -> Array:
        """Values as the cache holds them; NaN of e4m3 is its last number."""
        if not self.narrow_cache:
            return narrow(values, self.element)
        return np.where(np.isnan(values), np.uint8(0x7F), fp8(values.astype(np.float32)))


@dataclass(frozen=True)
class Prefill:
    """A dense cache; the context may begin before the new tokens."""

    new_tokens: int
    context: int
    heads: tuple[int, int]
    batch: int = 1
    causal: bool = True
    head_dim: int = 128
    element: Element = "bf16"
    spread: float = 1.0
    architecture: int = 80

    def build(self, rng: np.random.Generator) -> Case:
        query_heads, kv_heads = self.heads
        query_shape = (self.batch, self.new_tokens, query_heads, self.head_dim)
        kv_shape = (self.batch, self.context, kv_heads, self.head_dim)
        query = normal(rng, query_shape, self.element)
        keys = narrow(self.spread * rng.standard_normal(kv_shape), self.element)
        values = normal(rng, kv_shape, self.element)
        expected = [
            reference(*sequence, causal=self.causal)
            for sequence in zip(widen(query), widen(keys), widen(values), strict=True)
        ]
        return Case(
            {
                "query": query,
                "keys": keys,
                "values": values,
                "output": nan(query_shape, self.element),
            },
            lambda placed: prefill_attention(
                **placed,
                element=self.element,
                causal=self.causal,
                architecture=self.architecture,
            ),
            "output",
            np.stack(expected),
            TOLERANCE * ROUNDING[self.element],
        )


CASES: Final[dict[str, Decode | Prefill]] = {
    "decode, multi-head": Decode((65, 16), (4, 4)),
    "decode, grouped, one split empty": Decode((130, 37), (8, 2), splits=4),
    "decode, one kv head for 16": Decode((300,), (16, 1), splits=3),
    "decode, group of 24 in two bands": Decode((90,), (24, 1), splits=2),
    "decode, group of 40 in two blocks": Decode((50,), (40, 1)),
    "decode, one key": Decode((1, 200), (8, 1), splits=5),
    "decode, pages of 64": Decode((150, 64), (4, 2), splits=2, page_tokens=64),
    "decode, pages of 32, scores of a wide range": Decode(
        (257,), (4, 1), splits=2, page_tokens=32, spread=4.0
    ),
    "decode, narrow heads": Decode((100, 33), (8, 2), splits=2, head_dim=64),
    "decode, fewer tiles under way": Decode((200, 33), (8, 2), splits=2, architecture=80),
    "decode, fp16": Decode((143,), (8, 1), splits=2, element="fp16"),
    "verify 2 tokens": Decode((70, 18), (8, 2), new_tokens=2, splits=2),
    "verify 4 tokens": Decode((129,), (8, 1), new_tokens=4, splits=3),
    "verify 8 tokens": Decode((97, 8), (4, 1), new_tokens=8, splits=2, page_tokens=32),
    "verify 8 tokens of a wide group": Decode((66,), (8, 1), new_tokens=8),
    "verify 4 tokens, narrow heads, fp16": Decode(
        (80,), (12, 2), new_tokens=4, splits=2, head_dim=64, element="fp16"
    ),
    "decode, splits differ": Decode((64,), (2, 1), splits=2, spread=4.0),
    "decode, one warp behind": Decode((80,), (2, 1)),
    "decode, 8-bit cache": Decode((130, 37), (8, 2), splits=4, narrow_cache=True),
    "decode, 8-bit cache, multi-head": Decode((65, 16), (4, 4), narrow_cache=True),
    "decode, 8-bit cache, pages of 32, scores of a wide range": Decode(
        (257,), (4, 1), splits=2, page_tokens=32, spread=4.0, narrow_cache=True
    ),
    "decode, 8-bit cache, narrow heads, fp16": Decode(
        (100, 33), (8, 2), splits=2, head_dim=64, element="fp16", narrow_cache=True
    ),
    "decode, 8-bit cache, narrow heads, group of 40": Decode(
        (1, 97), (40, 1), splits=2, head_dim=64, narrow_cache=True
    ),
    "verify 8 tokens of a wide group, 8-bit cache": Decode(
        (66,), (8, 1), new_tokens=8, narrow_cache=True
    ),
    "prefill, one tile": Prefill(128, 128, (2, 1)),
    "prefill, past one tile": Prefill(150, 150, (2, 2)),
    "prefill, two groups": Prefill(20, 20, (4, 2)),
    "prefill, short": Prefill(7, 7, (2, 1), batch=2),
    "prefill, a chunk after 130 tokens": Prefill(70, 200, (2, 1), batch=2, spread=4.0),
    "prefill, a chunk after 31 tokens": Prefill(33, 64, (3, 1)),
    "prefill, not causal": Prefill(33, 257, (2, 1), causal=False),
    "prefill, not causal, context shorter than the queries": Prefill(100, 90, (1, 1), causal=False),
    "prefill, narrow heads": Prefill(140, 140, (2, 1), head_dim=64),
    "prefill, fp16": Prefill(65, 97, (2, 1), element="fp16"),
    "prefill, narrow heads, fp16": Prefill(40, 170, (2, 1), head_dim=64, element="fp16"),
    "warpgroups, one tile": Prefill(128, 128, (2, 1), architecture=HOPPER),
    "warpgroups, short": Prefill(7, 7, (2, 2), batch=2, architecture=HOPPER),
    "warpgroups, a chunk after 230 tokens": Prefill(
        150, 380, (2, 1), batch=2, spread=4.0, architecture=HOPPER
    ),
    "warpgroups, not causal": Prefill(70, 300, (4, 2), causal=False, architecture=HOPPER),
    "warpgroups, narrow heads": Prefill(140, 270, (2, 1), head_dim=64, architecture=HOPPER),
    "warpgroups, fp16": Prefill(65, 297, (2, 1), element="fp16", architecture=HOPPER),
}


def build(name: str) -> Case:
    """The case of that name, the same each time."""
    return CASES[name].build(np.random.default_rng(list(CASES).index(name)))
