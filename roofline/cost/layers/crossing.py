"""Operators of attention to the outputs of an encoder."""

from collections.abc import Iterator
from functools import partial

from roofline.cost.attention import attention, naive_attention
from roofline.cost.layers.common import Pass, attending, product
from roofline.cost.work import Op
from roofline.model.crossing import CrossAttention


def operators(p: Pass, part: CrossAttention, d: float, layers: int) -> Iterator[Op]:
    """Queries, attention of each group to all that its encoders put out, output projection.

    Keys and values are products of the encoder's tower.
    """
    heads, h, positions = part.heads / p.tp, float(part.head_dim), float(part.positions)
    biased = heads * h if part.biased else 0.0
    yield from product(p, "cross-q", heads * h, d, layers, biased=biased)
    naive = p.deployment.naive
    shape = {"heads": heads, "kv_heads": heads, "head_dim": h}
    kept = p.deployment.precision.kv.width
    for name, count, new, _ in p.groups:
        price = naive_attention if naive else partial(attention, mask="square")
        work = price(
            count,
            new,
            positions,
            heads=heads,
            kv_heads=heads,
            head_dim=h,
            width=p.stream_width,
            kv_width=kept,
            value_dim=h,
        )
        dims = {**shape, "value_dim": h, "window": 0.0, "chunk": 0.0, "square": 1.0}
        dims |= {"naive": 1.0} if naive else {}
        group = (name, count, new, positions)
        yield attending(p, "cross-attention", group, work, layers, dims)
    yield from product(p, "cross-out", d, heads * h, layers, biased=d if part.biased else 0.0)
