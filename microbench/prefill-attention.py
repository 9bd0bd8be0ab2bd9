"""Causal attention of new tokens, naive: two products and a masked softmax on all the scores."""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.attention import naive_attention
from roofline.cost.work import Work

WIDTH = 4
HEADS = ((9, 3, 64), (14, 2, 64), (32, 8, 64), (8, 8, 64), (16, 4, 128))
"""Query heads, key heads and their width: SmolLM 135M, Qwen2 0.5B, Llama 3.2 1B, MHA, wide."""
LENGTHS = (
    (16, 16),
    (64, 64),
    (128, 128),
    (256, 256),
    (512, 512),
    (1024, 1024),
    (16, 512),
    (64, 256),
    (128, 1024),
)
"""New tokens and context; from empty, then after a prefix."""


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Queries by token, the cache by head, a mask to add, and room for scores."""
    count, new, context = at["count"], at["new"], at["context"]
    kv, width = at["kv_heads"], at["head_dim"]
    group = at["heads"] // kv
    return {
        "q": make.normal(count, new, kv, group, width),
        "keys": make.normal(count, kv, context, width),
        "values": make.normal(count, kv, context, width),
        "mask": make.normal(new, context),
        "scaled": make.empty(count, kv, group, new, width),
        "scores": make.empty(count, kv, group, new, context),
        "row": make.empty(count, kv, group, new, 1),
        "heads": make.empty(count, kv, group, new, width),
        "out": make.empty(count, new, kv, group, width),
    }


def launch(xp, q, keys, values, mask, scaled, scores, row, heads, out):
    """Scores, mask, softmax, weighted values; queries and results change their order of axes."""
    count, kv, group, new, width = scaled.shape
    rows = (count, kv, group * new)
    xp.multiply(q.transpose(0, 2, 3, 1, 4), width**-0.5, out=scaled)
    flat = scores.reshape(*rows, -1)
    xp.matmul(scaled.reshape(*rows, width), keys.swapaxes(-1, -2), out=flat)
    xp.add(scores, mask, out=scores)
    xp.max(scores, axis=-1, keepdims=True, out=row)
    xp.subtract(scores, row, out=scores)
    xp.exp(scores, out=scores)
    xp.sum(scores, axis=-1, keepdims=True, out=row)
    xp.divide(scores, row, out=scores)
    xp.matmul(flat, values, out=heads.reshape(*rows, width))
    xp.copyto(out, heads.transpose(0, 3, 1, 2, 4))


def work(at: Shape) -> Work:
    """Work as the cost model counts it, with the scores in memory."""
    return naive_attention(
        at["count"],
        at["new"],
        at["context"],
        heads=at["heads"],
        kv_heads=at["kv_heads"],
        head_dim=at["head_dim"],
        width=WIDTH,
        kv_width=WIDTH,
    )


def regime(at: Shape) -> str:
    """Side by whether there is a prefix."""
    return "whole" if at["new"] == at["context"] else "chunk"


PROBE = Probe(
    name="prefill-attention",
    version=1,
    kind="prefill-attention",
    axes={"count": (1, 4), "heads kv_heads head_dim": HEADS, "new context": LENGTHS},
    arguments=arguments,
    launch=launch,
    work=work,
    regime=regime,
    arithmetic="fp32",
    backends=("numpy",),
)
