"""Operators of multi-head latent attention, in the cheaper of its two forms."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from roofline.cost.latent import absorbed_attention, chosen, expanded_attention
from roofline.cost.layers.attention import gathered, index, mask_of, shared
from roofline.cost.layers.common import (
    ForwardPass,
    Sequences,
    attending,
    called,
    elementwise,
    is_one,
    kv_store,
    other,
    product,
    rotary,
    split,
)
from roofline.cost.work import INTO_LATENT, NORM, OUT_OF_LATENT, Formula, Number, Op, Work, by
from roofline.model.architecture import Mla
from roofline.records import replace


def operators(p: ForwardPass, part: Mla, d: float, layers: int) -> Iterator[Op]:
    """Down and up projections, cache, attention of each group, output projection.

    A group is priced in both forms and gets the one that takes less time at datasheet rates;
    ``options.mla`` forces one of them. Keys that an index chose are attended in the latent: each
    query has others, and expanding them for it alone would take longer than attending to them.
    Source: DeepSeek-V3.2 (2025), section 2.1, multi-query mode of sparse attention.
    """
    matrices = {matrix.name: matrix for matrix in part.linears(int(d))}
    yield from split(p, matrices["latent-down"], layers)
    if part.norm_parameters:
        widths = float(part.query_rank + part.latent)
        yield elementwise(
            p, "latent-norm", widths, widths, layers, parameters=part.norm_parameters, kernel=NORM
        )
    yield from split(p, matrices["q-up" if part.query_rank else "q"], layers)
    heads = part.heads / p.tp
    turned = heads * part.rope_dim + part.rope_dim
    yield from rotary(p, turned, layers)
    yield kv_store(p, float(part.kv_elements), layers)
    if part.index is not None:
        yield from index(p, part.index, layers, queries=heads, latent=float(part.latent))
    for group in p.groups:
        _, count, new, context = group
        yield from gathered(p, new, _cache(p, part, count, context), layers)
        yield from _group(p, part, group, layers)
    if part.gate:
        values = heads * part.value_dim
        yield from split(p, matrices["attn-gate"], layers)
        yield elementwise(p, "output-gate", 2 * values, values, layers)
    yield from split(p, matrices["attn-out"], layers)


def _group(p: ForwardPass, part: Mla, group: Sequences, layers: int) -> Iterator[Op]:
    expanded, absorbed = _expanded(p, part, group, layers), _absorbed(p, part, group, layers)
    choice = p.deployment.options.mla
    hidden = False if part.index is None else np.asarray(group[3]) > part.index.top_k
    shorter: Number = np.where(_seconds(p, absorbed) <= _seconds(p, expanded), 1.0, 0.0)
    shorter = np.where(hidden, 1.0, shorter)
    if choice != "auto":
        shorter = 1.0 if choice == "absorbed" else 0.0
    for ops, used in ((expanded, 1.0 - shorter), (absorbed, shorter)):
        if np.any(used):
            whole = not isinstance(used, np.ndarray) or bool(np.all(used))
            for op in ops:  # nothing where the form is not used
                yield op if whole else replace(op, work=op.work * used, wire_s=op.wire_s * used)


def _seconds(p: ForwardPass, ops: list[Op]) -> Number:
    """Time at datasheet rates, each operator overlapped in itself."""
    gpu = p.deployment.node.gpu
    total: Number = 0.0
    for op in ops:
        compute = op.work.flops * (1.0 / gpu.rate(op.arithmetic)) if op.arithmetic else 0.0
        memory = op.work.hbm_bytes * (1.0 / gpu.hbm_bytes_per_s)
        slower: Number = np.maximum(compute, memory)
        total = total + slower
    return total


def _expanded(p: ForwardPass, part: Mla, group: Sequences, layers: int) -> list[Op]:
    """Keys and values are made from the latent of every context token, then attended."""
    name, count, new, context = group
    precision, heads = p.deployment.precision, part.heads / p.tp
    top_k = None if part.index is None else float(part.index.top_k)
    mine = p.deployment.layout.cp if is_one(new) else 1.0  # decode expands its share of the cache
    tokens = count * chosen(new, context, top_k) * (1.0 / mine)
    n = heads * (part.nope_dim + part.value_dim)
    up = list(
        product(p, called("kv-up", name), n, part.latent, layers, tokens=tokens, role="kv-up")
    )
    symbols = {"m": tokens, "kv_elements": part.kv_elements, "kv_width": precision.kv.width}
    read = Work(kv_bytes=(part.kv_elements * precision.kv.width) * tokens, made=by(_READ, symbols))
    shape = {
        "heads": heads,
        "query_dim": float(part.nope_dim + part.rope_dim),
        "value_dim": float(part.value_dim),
        "rope": float(part.rope_dim),
    }
    work = expanded_attention(
        count, new, context, width=p.width, mask=mask_of(p), top_k=top_k, **shape
    )
    dims = {
        "heads": heads,
        "kv_heads": heads,
        "head_dim": shape["query_dim"],
        "value_dim": shape["value_dim"],
        "window": top_k or 0.0,
        "chunk": 0.0,
    }
    made = precision.activations.name
    attention = attending(p, "attention-expanded", group, work, layers, dims, kv=made)
    alone = [replace(op, by_group=True) for op in (_with(up[0], read), *up[1:])]
    return [*alone, *_shared(p, part, attention, shape["value_dim"])]


_READ: Final = Formula(kv_bytes="m · kv_elements · kv_width")


def _cache(p: ForwardPass, part: Mla, count: Number, context: Number) -> Number:
    """Latents of the whole context, which is what devices that share it pass on. [B]"""
    return part.kv_elements * p.deployment.precision.kv.width * count * context


def _shared(p: ForwardPass, part: Mla, attention: Op, out: Number) -> Iterator[Op]:
    """Attention of one of the devices that share a context."""
    dims = attention.dims
    cache = _cache(p, part, dims["count"], dims["context"])
    return shared(p, attention, cache=cache, out=dims["heads"] * (out + 2.0))


def _absorbed(p: ForwardPass, part: Mla, group: Sequences, layers: int) -> list[Op]:
    """Queries are taken into the latent, attended there, and values taken out of it."""
    name, count, new, context = group
    heads = part.heads / p.tp
    top_k = None if part.index is None else float(part.index.top_k)
    mine = 1.0 if is_one(new) else p.deployment.layout.cp  # prefill has its share of the queries
    tokens = count * new * (1.0 / mine)
    n_in, n_out = heads * part.latent, heads * part.value_dim
    q_absorb, v_absorb = called("q-absorb", name), called("v-absorb", name)
    into = product(
        p, q_absorb, n_in, part.nope_dim, layers, tokens=tokens, role="kv-up", kernel=INTO_LATENT
    )
    out = product(
        p, v_absorb, n_out, part.latent, layers, tokens=tokens, role="kv-up", kernel=OUT_OF_LATENT
    )
    shape = {"heads": heads, "latent": float(part.latent), "rope": float(part.rope_dim)}
    widths = {"width": p.width, "kv_width": p.deployment.precision.kv.width}
    work = absorbed_attention(count, new, context, **shape, **widths, mask=mask_of(p), top_k=top_k)
    dims = {**shape, "window": top_k or 0.0}
    if top_k is not None:
        dims |= {"sparse": 1.0, "top_k": top_k}
    attention = attending(
        p, "attention-absorbed", group, work, layers, dims, kind="latent-attention"
    )
    return [
        *(_own_inputs(p, op, heads, part.nope_dim, tokens) for op in into),
        *_shared(p, part, attention, float(part.latent)),
        *(_own_inputs(p, op, heads, part.latent, tokens) for op in out),
    ]


def _own_inputs(p: ForwardPass, op: Op, heads: Number, k: float, tokens: Number) -> Op:
    """Each head has a matrix of its own, so its inputs are its own: more is read than k a token."""
    op = replace(op, by_group=True)
    if op.kind != "gemm":
        return op
    more = ((heads - 1.0) * k * p.width) * tokens
    return _with(op, other("activation_bytes", "inputs of the other heads", more))


def _with(op: Op, more: Work) -> Op:
    return replace(op, work=op.work + more)
