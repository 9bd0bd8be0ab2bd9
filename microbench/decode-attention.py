"""One query per sequence against its cache, grouped: two products and a softmax between them."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.attention import attention
from roofline.cost.work import Work

WIDTH = 4
HEADS = ((9, 3, 64), (14, 2, 64), (32, 8, 64), (8, 8, 64), (16, 4, 128))
"""Query heads, key heads and their width: SmolLM 135M, Qwen2 0.5B, Llama 3.2 1B, MHA, wide."""


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Queries, the cache and room for the scores; queries of a key head lie together."""
    count, kv, context, width = at["count"], at["kv_heads"], at["context"], at["head_dim"]
    group = at["heads"] // kv
    return {
        "q": make.normal(count, kv, group, width),
        "keys": make.normal(count, kv, context, width),
        "values": make.normal(count, kv, context, width),
        "scaled": make.empty(count, kv, group, width),
        "scores": make.empty(count, kv, group, context),
        "row": make.empty(count, kv, group, 1),
        "out": make.empty(count, kv, group, width),
    }


def launch(xp, q, keys, values, scaled, scores, row, out):
    """Scores, softmax, weighted values."""
    xp.multiply(q, q.shape[-1] ** -0.5, out=scaled)
    xp.matmul(scaled, keys.swapaxes(-1, -2), out=scores)
    xp.max(scores, axis=-1, keepdims=True, out=row)
    xp.subtract(scores, row, out=scores)
    xp.exp(scores, out=scores)
    xp.sum(scores, axis=-1, keepdims=True, out=row)
    xp.divide(scores, row, out=scores)
    xp.matmul(scores, values, out=out)


def work(at: Shape) -> Work:
    """Work as the cost model counts it, fused: the scores of one query stay in the cache."""
    return attention(
        at["count"],
        1,
        at["context"],
        heads=at["heads"],
        kv_heads=at["kv_heads"],
        head_dim=at["head_dim"],
        width=WIDTH,
        kv_width=WIDTH,
    )


def regime(at: Shape) -> str:
    """Short contexts are calls, long ones are bytes."""
    return "short" if at["context"] <= 256 else "long"


PROBE = Probe(
    name="decode-attention",
    version=2,
    kind="decode-attention",
    axes={
        "count": (1, 4, 16),
        "heads kv_heads head_dim": HEADS,
        "context": (32, 128, 512, 2048, 8192),
    },
    arguments=arguments,
    launch=launch,
    work=work,
    streamed=("keys", "values"),
    states=("near", "cold"),
    regime=regime,
    arithmetic="fp32",
    backends=("numpy",),
)
