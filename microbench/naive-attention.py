"""Attention without fusing, for contrast: two products, and a softmax of all scores in memory.

In single precision with TensorFloat-32 products, and without a mask: a mask would not make the
products smaller, only add a pass.
"""

from roofline.bench.gpu.calls import Multiply
from roofline.bench.gpu.pointwise import softmax
from roofline.bench.gpu.torch_attention import HEADS
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.attention import naive_attention
from roofline.cost.work import Work

WIDTH = 4


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Queries of a key head together, keys, turned values, scores, their softmax and the result."""
    count, tokens, width = at["count"], at["tokens"], at["head_dim"]
    units, rows = count * at["kv_heads"], at["heads"] // at["kv_heads"] * tokens
    return {
        "query": make.normal(units, rows, width),
        "keys": make.normal(units, tokens, width),
        "values": make.normal(units, width, tokens),
        "scores": make.empty(units, rows, tokens),
        "shares": make.empty(units, rows, tokens),
        "output": make.empty(units, rows, width),
    }


def kernels(gpu, query, keys, values, scores, shares, output):
    """Scores, softmax, weighted values."""
    flat = (-1, scores.shape[-1])
    return (
        Multiply("tf32", query, keys, scores),
        *softmax(scores.reshape(flat), shares.reshape(flat)),
        Multiply("tf32", shares, values, output),
    )


def work(at: Shape) -> Work:
    """As the cost model counts it, with the scores in memory."""
    return naive_attention(
        at["count"],
        at["tokens"],
        at["tokens"],
        heads=at["heads"],
        kv_heads=at["kv_heads"],
        head_dim=at["head_dim"],
        width=WIDTH,
        kv_width=WIDTH,
    )


PROBE = Probe(
    name="naive-attention",
    version=1,
    kind="prefill-attention",
    axes={
        "count": (1, 4),
        "heads kv_heads head_dim": HEADS,
        "tokens": (128, 256, 512, 1024, 2048, 4096, 8192),
    },
    arguments=arguments,
    work=work,
    arithmetic="tf32",
    backends=("cupy",),
    kernels=kernels,
    form="roof",
)
