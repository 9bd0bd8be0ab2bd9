"""Operators of attention to a window of tokens and to summaries of those before (DeepSeek-V4)."""

from collections.abc import Iterator
from typing import Final

from roofline.cost import latent
from roofline.cost.attention import MET, keys_read, pairs
from roofline.cost.latent import chosen
from roofline.cost.layers.attention import mask_of
from roofline.cost.layers.common import (
    ForwardPass,
    attending,
    elementwise,
    index_store,
    kv_store,
    rotary,
    split,
)
from roofline.cost.work import NORM, Formula, Op, Work, by, times
from roofline.model.architecture import CompressedAttention
from roofline.records import replace

_ENTRIES: Final = Formula(
    flops="4 · heads · head_dim · count · pairs_met",
    activation_bytes="2 · heads · head_dim · width · count · new",
    kv_bytes="head_dim · kv_width · count · keys",
    meanings=MET,
)
"""Attention to entries that are keys and values in one."""


def operators(p: ForwardPass, part: CompressedAttention, d: float, layers: int) -> Iterator[Op]:
    """Projections, entries of groups of tokens, index, attention of each group, output.

    A query meets the tokens of its window, and an entry for every ``ratio`` tokens before, or the
    best few. Entries are counted as if groups completed continuously.
    """
    kv_width = p.deployment.precision.kv.width
    heads, h = part.heads / p.tp, float(part.head_dim)
    *into, down, up = part.linears(int(d))
    for matrix in into:
        yield from split(p, matrix, layers)
    widths = float(part.query_rank) + h
    yield elementwise(p, "latent-norm", widths, widths, layers, parameters=widths, kernel=NORM)
    turned = heads * h + h
    yield from rotary(p, turned, layers)
    if part.ratio:
        pooled = 2.0 * part.series * h
        yield elementwise(p, "compress", pooled, h / part.ratio, layers)
    yield kv_store(p, h + float(part.entry_elements), layers)
    if part.index is not None:
        yield index_store(p, float(part.index.bytes_per_token), layers)
    for group in p.groups:
        _, count, new, context = group
        met = pairs(new, context, mask=mask_of(p), window=float(part.window))
        seen = keys_read(new, context, float(part.window))
        if part.ratio:
            best = None if part.index is None else float(part.index.top_k)
            span = None if best is None else best * part.ratio
            met = met + pairs(new, context, mask=mask_of(p), window=span) * (1.0 / part.ratio)
            entries = context * (1.0 / part.ratio)
            seen = seen + (entries if best is None else chosen(new, entries, best))
        if part.index is not None:
            shape = {"heads": float(part.index.heads), "head_dim": float(part.index.head_dim)}
            entry_bytes = float(part.index.bytes_per_token * part.ratio)
            scores = latent.index_scores(
                count,
                new,
                context * (1.0 / part.ratio),
                bytes_per_token=entry_bytes,
                width=p.width,
                mask="square",
                **shape,
            )
            # Under a causal mask a query scores the entries before it: half, from empty.
            before = pairs(new, context, mask=mask_of(p))
            work = replace(
                scores.telling(pairs_met=before / part.ratio),
                flops=scores.flops * (before / (new * context)),
            )
            told = {"top_k": float(part.index.top_k), "ratio": float(part.ratio)}
            dims = {**shape, **told, "entry_bytes": entry_bytes, "queries": heads}
            yield attending(p, "index-scores", group, work, layers, dims, kind="index")
        work = Work(
            flops=(4.0 * heads * h) * times(count, met),
            activation_bytes=(2.0 * heads * h * p.width) * times(count, new),
            kv_bytes=(h * kv_width) * times(count, seen),
            made=by(
                _ENTRIES,
                {"heads": heads, "head_dim": h, "count": count, "new": new, "pairs_met": met}
                | {"keys": seen, "width": p.width, "kv_width": kv_width},
            ),
        )
        dims = {
            "heads": heads,
            "kv_heads": 1.0,
            "head_dim": h,
            "value_dim": h,
            "window": float(part.window),
            "chunk": 0.0,
            "ratio": float(part.ratio),
            "top_k": 0.0 if part.index is None else float(part.index.top_k),
        }
        yield attending(p, "attention-compressed", group, work, layers, dims)
    yield from split(p, down, layers)
    yield from split(p, up, layers)
