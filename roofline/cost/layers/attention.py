"""Operators of softmax attention, with a key/value cache or to the outputs of an encoder."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from roofline.cost import latent
from roofline.cost.attention import Mask, attention, naive_attention, occupied, tiled_attention
from roofline.cost.collectives import all_gather, all_reduce, ring
from roofline.cost.layers.common import (
    ForwardPass,
    attending,
    collective,
    elementwise,
    index_store,
    is_one,
    kv_store,
    product,
    rotary,
    split,
)
from roofline.cost.work import NORM, ROTARY, Number, Op, anywhere, times
from roofline.model.architecture import Attention, Indexer
from roofline.model.crossing import CrossAttention
from roofline.part import Part
from roofline.records import replace


def operators(p: ForwardPass, part: Attention, d: float, layers: int) -> Iterator[Op]:
    """Projections, norms, rotation, cache, attention of each group, output projection."""
    deployment, precision = p.deployment, p.deployment.precision
    tp, h, v = p.tp, float(part.head_dim), float(part.value_width)
    heads, kv_heads = part.heads / tp, part.kv_heads_per_device(tp)
    queries, keys = heads * h, kv_heads * h * (not part.reuses_kv)
    cached = kv_heads * (h + v) * (not part.reuses_kv)
    projected = keys if part.keys_are_values else cached
    gate = heads * v if part.gate else 0.0
    head_gate = heads if part.head_gate else 0.0
    biased = part.repeated_biases(tp)
    wide = queries + projected + gate + head_gate
    yield from product(p, "qkv", wide, part.input_width or d, layers, biased=biased)
    turned = queries + keys
    if part.norm_parameters:
        yield elementwise(
            p, "qk-norm", turned, turned, layers, parameters=part.norm_parameters, kernel=NORM
        )
    stored = part.cached and not part.reuses_kv
    if part.rotary and stored and p.fusion == "all":
        # Keys are turned on their way to the cache: read once, and not written beside it.
        turn = elementwise(p, "rotary", turned, queries, layers, kernel=ROTARY)
        store = kv_store(p, cached, layers, read=cached - keys)
        dims = {name: turn.dims[name] + store.dims[name] for name in ("reads", "writes")}
        yield replace(store, work=turn.work + store.work, dims={**store.dims, **dims})
    else:
        if part.rotary:
            yield from rotary(p, turned, layers)
        if stored:
            yield kv_store(p, cached, layers)
    if part.index is not None:
        yield from index(p, part.index, layers, queries=heads, kv_heads=kv_heads)

    shape = {"heads": heads, "kv_heads": kv_heads, "head_dim": h}
    window = None if part.window is None else float(part.window)
    chunk = None if part.chunk is None else float(part.chunk)
    if part.index is not None:
        window = float(part.index.top_k)
    mask = mask_of(p)
    told = "-".join(["attention", *_told(p, part)])
    # What kernels of a network without these do not do.
    apart = {} if part.index is None else {"sparse": 1.0, "top_k": float(part.index.top_k)}
    apart |= {} if deployment.architecture.causal else {"square": 1.0}
    sram = deployment.options.sram_bytes if part.sees_all else 0.0
    apart |= {"naive": 1.0} if deployment.naive or sram else {}
    for group in p.groups:
        _, count, new, context = group
        widths = {"width": p.stream_width, "kv_width": precision.kv.width, "value_dim": v}
        if deployment.naive:
            work = naive_attention(
                count, new, context, window=window, chunk=chunk, **shape, **widths
            )
        elif sram and not is_one(new):
            work = tiled_attention(count, new, context, mask=mask, sram=sram, **shape, **widths)
        else:
            # Keys that an index chose are not neighbours.
            best = None if part.index is None else float(part.index.top_k)
            chosen = None if best is None else latent.chosen(new, context, best)
            work = attention(
                count,
                new,
                context,
                mask=mask,
                window=window,
                chunk=chunk,
                chosen=chosen,
                **shape,
                **widths,
            )
        dims = {**shape, "value_dim": v, "window": window or 0.0, "chunk": chunk or 0.0, **apart}
        own = dims
        if is_one(new) and not deployment.options.split_kv:
            blocks = occupied(count * kv_heads, deployment.node.gpu.multiprocessors)
            own = dims | {"occupied": blocks}
        op = attending(p, told, group, work, layers, own)
        seen = _seen(part, context, deployment.layout.cp)
        cache = (kv_heads * (h + v) * precision.kv.width) * times(count, seen)
        yield from gathered(p, new, cache, layers)
        yield from shared(p, op, cache=cache, out=heads * (v + 2.0))
    if part.gate or part.head_gate:
        out = heads * v
        yield elementwise(p, "output-gate", out + gate + head_gate, out, layers)
    bias = d if part.out_bias else 0.0
    yield from product(p, "attn-out", d, heads * v, layers, biased=bias)


def _seen(part: Attention, context: Number, cp: Number) -> Number:
    """Keys that devices which share a context have to pass around. [token]

    Where each query sees a span only, a device lacks the spans before its two parts of the context.
    """
    span = part.window if part.window is not None else part.chunk
    if span is None:
        return context
    seen: Number = np.minimum(context, 2.0 * span * cp / np.maximum(cp - 1.0, 1.0))
    return seen


def _told(p: ForwardPass, part: Attention) -> list[str]:
    """Names of the window and chunk of a layer, where layers of the network differ in them."""
    mixers = [block.mixer for block in p.deployment.architecture.kinds]
    spans = {(mixer.window, mixer.chunk) for mixer in mixers if isinstance(mixer, Attention)}
    if len(spans) == 1:
        return []
    window = [f"window-{part.window}"] if part.window else []
    return window + ([f"chunk-{part.chunk}"] if part.chunk else [])


def mask_of(p: ForwardPass) -> Mask:
    """Pairs that count: those of a causal network, unless all are asked for."""
    causal = p.deployment.architecture.causal and p.deployment.options.mask == "causal"
    return "causal" if causal else "square"


def index(p: ForwardPass, part: Indexer, layers: int, **attention: Number) -> Iterator[Op]:
    """Projections of the indexer, and the scores it gives to every cached token.

    Args:
        p, part, layers: Step, indexer, and layers that have it.
        attention: Dimensions of the attention that it chooses for, by which kernels are told apart.
    """
    if not part.computes:
        return
    for matrix in part.linears(p.deployment.architecture.d_model):
        yield from split(p, matrix, layers)
    shape = {"heads": float(part.heads), "head_dim": float(part.head_dim)}
    cached = float(part.bytes_per_token)
    yield index_store(p, cached, layers)
    dims = {**shape, "top_k": float(part.top_k), "entry_bytes": cached, **attention}
    for group in p.groups:
        work = latent.index_scores(
            *group[1:], bytes_per_token=cached, width=p.width, mask=mask_of(p), **shape
        )
        yield attending(p, "index-scores", group, work, layers, dims, kind="index")


def gathered(p: ForwardPass, new: Number, cache: Number, layers: int) -> Iterator[Op]:
    """Keys and values of the whole context on every device that shares it, before prefill attends.

    Args:
        p, layers: The step; how often.
        new: New tokens of each sequence. [token]
        cache: Keys and values of the whole context that one device attends to. [B]
    """
    cp = p.deployment.layout.cp
    if not anywhere(cp != 1) or is_one(new) or p.deployment.options.ring_attention:
        return
    ranks = p.deployment.ranks(cp, p.tp)
    whole = Part("M", cache, source="keys and values of the whole context that a device attends to")
    moved = all_gather(cache, ranks)
    op = collective("gather-context", moved, whole, ranks, layers, operation="all_gather")
    yield replace(op, by_group=True)


def shared(p: ForwardPass, op: Op, *, cache: Number, out: Number) -> Iterator[Op]:
    """One device's share of an attention operator, and the sum of outputs in decode.

    Prefill: each device has the queries of 1/c of the new tokens, cut so that all have as many
    pairs, and needs the keys and values of the whole context: gathered before, or passed around a
    ring while it attends. Decode: each device attends to 1/c of the cache, and outputs are added
    up with the weights of their softmax.

    Args:
        p, op: The step; attention as if there were no group.
        cache: Keys and values of the whole context that one device attends to. [B]
        out: Width of a query's output on one device, with its two 16-bit softmax sums. [1]
    """
    cp = p.deployment.layout.cp
    if not anywhere(cp != 1):
        yield op
        return
    work, dims = op.work, op.dims
    ranks = p.deployment.ranks(cp, p.tp)
    if is_one(dims["new"]):
        less = work.parted(cp, "flops", "kv_bytes")
        yield replace(op, work=less, dims={**dims, "context": dims["context"] / cp})
        payload = (out * p.width) * dims["count"]
        moved = all_reduce(payload, ranks)
        whole = Part("M", payload, source="outputs of the queries, with their softmax sums")
        name = f"all-reduce-{op.name}"
        summed = collective(name, moved, whole, ranks, op.repeat, operation="all_reduce")
        yield replace(summed, by_group=True)
        return
    less = work.parted(cp, "flops", "activation_bytes")
    mine = replace(op, work=less, dims={**dims, "new": dims["new"] / cp, "sharers": cp})
    if p.deployment.options.ring_attention:
        passed = ring(cache, ranks)
        mine = replace(mine, work=less + passed.work, wire_s=passed.seconds, algorithm="ring")
    yield mine


def cross_operators(p: ForwardPass, part: CrossAttention, d: float, layers: int) -> Iterator[Op]:
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
