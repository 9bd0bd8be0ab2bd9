"""Attention of one new token per sequence, or of a few drafted ones, over a paged cache in bf16."""

from math import prod

from roofline.bench.gpu.attention import decode_attention, decode_splits
from roofline.bench.gpu.torch_attention import HEADS, pages, same
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.attention import attention
from roofline.cost.work import Work

WIDTH = 2
PAGE = 16
"""Tokens."""
MOST_SPLITS = 128
SHORT = 1024
"""Tokens of context up to which launches weigh."""
LARGEST = 256
"""Multiprocessors of a device for whose splits there is room."""


def splits(count: int, kv_heads: int, context: int, multiprocessors: int) -> int:
    """Parts of a context."""
    return decode_splits(count, kv_heads, context, multiprocessors, most=MOST_SPLITS)


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Queries, the cache in pages, where they are, and room for parts of the result."""
    count, new, context = at["count"], at["new"], at["context"]
    heads, kv, width = at["heads"], at["kv_heads"], at["head_dim"]
    each = -(-context // PAGE)
    parted = splits(count, kv, context, LARGEST)
    rows = count * new * heads * parted if parted > 1 else 0
    return {
        "query": make.normal(count, new, heads, width, of="bf16"),
        "keys": make.normal(count * each, PAGE, kv, width, of="bf16"),
        "values": make.normal(count * each, PAGE, kv, width, of="bf16"),
        "table": make.constant(pages, count, each),
        "contexts": make.constant(same, count, context),
        "parts": make.empty(rows, width),
        "sums": make.empty(rows),
        "output": make.empty(count, new, heads, width, of="bf16"),
        "context": context,
    }


def kernels(gpu, query, keys, values, table, contexts, parts, sums, output, context):
    """One pass over the cache, split so that the device is busy, and one over the splits."""
    count, new, heads, width = query.shape
    parted = splits(count, keys.shape[2], context, gpu.multiprocessors)
    shape = (count, new, heads, parted)
    room = {}
    if parted > 1:
        room["partial_output"] = parts.reshape(-1)[: prod(shape) * width].reshape(*shape, width)
        room["partial_log_sum"] = sums[: prod(shape)].reshape(shape)
    return decode_attention(query, keys, values, table, contexts, output, element="bf16", **room)


def work(at: Shape) -> Work:
    """Work as the cost model counts it."""
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
    """One token or several, on a short context or a long one."""
    return (
        f"{'decode' if at['new'] == 1 else 'verify'} {'short' if at['context'] <= 1024 else 'long'}"
    )


PROBE = Probe(
    name="paged-decode",
    version=1,
    kind="decode-attention",
    axes={
        "count": (1, 4, 16, 64, 256),
        "new": (1, 2, 4, 8),
        "heads kv_heads head_dim": HEADS,
        "context": (128, 512, 2048, 8192, 32768, 131072),
    },
    arguments=arguments,
    work=work,
    streamed=("keys", "values"),
    states=("cold",),
    regime=regime,
    arithmetic="bf16",
    backends=("cupy",),
    kernels=kernels,
)
