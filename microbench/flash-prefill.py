"""Causal attention of a prompt, or of a chunk of one after a cached prefix, fused, in bf16."""

from roofline.bench.gpu.attention import prefill_attention
from roofline.bench.gpu.torch_attention import HEADS
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.attention import attention
from roofline.cost.work import Work

WIDTH = 2
LENGTHS = (
    *((size, size) for size in (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)),
    *((64, 2048), (256, 4096), (512, 2048), (512, 8192), (512, 32768)),
    *((2048, 4096), (2048, 16384), (2048, 65536), (8192, 32768)),
)
"""New tokens and context; from empty, then after a prefix."""


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Queries, keys and values by token, and the result."""
    count, new, context = at["count"], at["new"], at["context"]
    heads, kv, width = at["heads"], at["kv_heads"], at["head_dim"]
    return {
        "query": make.normal(count, new, heads, width, of="bf16"),
        "keys": make.normal(count, context, kv, width, of="bf16"),
        "values": make.normal(count, context, kv, width, of="bf16"),
        "output": make.empty(count, new, heads, width, of="bf16"),
    }


def kernels(gpu, query, keys, values, output):
    """One kernel, of whole warpgroups on Hopper."""
    return prefill_attention(
        query, keys, values, output, element="bf16", architecture=gpu.architecture
    )


def work(at: Shape) -> Work:
    """Work as the cost model counts it for a causal kernel."""
    return attention(
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
    name="flash-prefill",
    version=2,
    kind="prefill-attention",
    axes={"count": (1, 4, 16), "heads kv_heads head_dim": HEADS, "new context": LENGTHS},
    arguments=arguments,
    work=work,
    regime=regime,
    arithmetic="bf16",
    backends=("cupy",),
    kernels=kernels,
)
