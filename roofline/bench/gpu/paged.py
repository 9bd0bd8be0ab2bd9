"""Probes of decoding over a paged cache, by the kernel of ``microbench/cuda``."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from roofline.bench.elements import stored
from roofline.bench.gpu.attention import decode_attention, decode_splits
from roofline.bench.gpu.device import Sku
from roofline.bench.gpu.launch import Launch
from roofline.bench.gpu.torch_attention import HEADS, pages, same
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.attention import attention
from roofline.cost.work import Work

WIDTH: Final = 2
PAGE: Final = 16
"""Tokens of a page. [token]"""
MOST_SPLITS: Final = 128
SHORT: Final = 1024
"""Context up to which launches weigh. [token]"""
LARGEST: Final = 256
"""Multiprocessors of a device for whose splits there is room."""
ADA: Final = 89
"""Oldest architecture that converts 8-bit floats."""


def paged_decode(name: str, cache: str) -> Probe:
    """Probe of one new token per sequence, or a few drafted ones, in bf16.

    Args:
        name: As its file is called.
        cache: Number type of keys and values: ``"bf16"``, or ``"fp8"`` with scales of one, which is
            widened in registers.
    """
    width = int(stored(cache).itemsize)
    axes: dict[str, Sequence[Any]] = {
        "count": (1, 4, 16, 64, 256),
        "new": (1, 2, 4, 8),
        "heads kv_heads head_dim": HEADS,
        "context": (128, 512, 2048, 8192, 32768, 131072),
    }
    if width != WIDTH:
        axes["kv_width"] = (width,)

    def arguments(make: Maker, at: Shape) -> Mapping[str, object]:
        return _arguments(make, at, cache)

    def work(at: Shape) -> Work:
        return attention(
            at["count"],
            at["new"],
            at["context"],
            heads=at["heads"],
            kv_heads=at["kv_heads"],
            head_dim=at["head_dim"],
            width=WIDTH,
            kv_width=width,
        )

    return Probe(
        name=name,
        version=1,
        kind="decode-attention",
        axes=axes,
        arguments=arguments,
        work=work,
        streamed=("keys", "values"),
        states=("cold",),
        regime=regime,
        arithmetic="bf16",
        backends=("cupy",),
        kernels=kernels,
        architecture=ADA if width != WIDTH else 0,
    )


def paged_shape(at: Shape) -> tuple[int, int, int, int]:
    """Shape of all sequences' keys: pages, their tokens, heads and width."""
    return at["count"] * -(-at["context"] // PAGE), PAGE, at["kv_heads"], at["head_dim"]


def splits(count: int, kv_heads: int, context: int, multiprocessors: int) -> int:
    """Parts of a context."""
    return decode_splits(count, kv_heads, context, multiprocessors, most=MOST_SPLITS)


def _arguments(make: Maker, at: Shape, cache: str) -> dict[str, object]:
    """Queries, the cache in pages, where they are, and room for parts of the result."""
    count, new, context = at["count"], at["new"], at["context"]
    heads, kv, width = at["heads"], at["kv_heads"], at["head_dim"]
    shape = paged_shape(at)
    parted = splits(count, kv, context, LARGEST)
    rows = count * new * heads * parted if parted > 1 else 0
    return {
        "query": make.normal(count, new, heads, width, of="bf16"),
        "keys": make.normal(*shape, of=cache),
        "values": make.normal(*shape, of=cache),
        "table": make.constant(pages, count, shape[0] // count),
        "contexts": make.constant(same, count, context),
        "parts": make.empty(rows, width),
        "sums": make.empty(rows),
        "output": make.empty(count, new, heads, width, of="bf16"),
        "context": context,
    }


def kernels(
    gpu: Sku,
    query: Any,
    keys: Any,
    values: Any,
    table: Any,
    contexts: Any,
    parts: Any,
    sums: Any,
    output: Any,
    context: int,
) -> Sequence[Launch]:
    """One pass over the cache, split so that the device is busy, and one over the splits."""
    count, new, heads, width = query.shape
    parted = splits(count, keys.shape[2], context, gpu.multiprocessors)
    shape = (count, new, heads, parted)
    room = {}
    if parted > 1:
        room["partial_output"] = parts.reshape(-1)[: prod(shape) * width].reshape(*shape, width)
        room["partial_log_sum"] = sums[: prod(shape)].reshape(shape)
    arrays = (query, keys, values, table, contexts, output)
    return decode_attention(*arrays, element="bf16", architecture=gpu.architecture, **room)


def regime(at: Shape) -> str:
    """One token or several, on a short context or a long one."""
    length = "short" if at["context"] <= SHORT else "long"
    return f"{'decode' if at['new'] == 1 else 'verify'} {length}"
