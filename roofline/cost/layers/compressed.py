"""Operators of attention to a window of tokens and to summaries of those before (DeepSeek-V4)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from roofline.cost import latent
from roofline.cost.attention import MET, keys_read, pairs
from roofline.cost.latent import chosen
from roofline.cost.layers.attention import mask_of
from roofline.cost.layers.common import Pass, elementwise, index_store, is_one, kv_store, split
from roofline.cost.work import Formula, Number, Op, Work, by, times
from roofline.model.architecture import CompressedAttention

_ENTRIES: Final = Formula(
    flops="4 · heads · head_dim · count · pairs_met",
    activation_bytes="2 · heads · head_dim · width · count · new",
    kv_bytes="head_dim · kv_width · count · keys",
    meanings=MET,
)
"""Attention to entries that are keys and values in one."""


def operators(p: Pass, part: CompressedAttention, d: float, layers: int) -> Iterator[Op]:
    """Projections, entries of groups of tokens, index, attention of each group, output.

    A query meets the tokens of its window, and an entry for every ``ratio`` tokens before, or the
    best few. Entries are counted as if groups completed continuously.
    """
    precision, tp = p.deployment.precision, p.tp
    heads, h = part.heads / tp, float(part.head_dim)
    *into, down, up = part.linears(int(d))
    for matrix in into:
        yield from split(p, matrix, layers)
    widths = float(part.query_rank) + h
    yield elementwise(p, "latent-norm", widths, widths, layers, parameters=widths)
    turned = heads * h + h
    yield elementwise(p, "rotary", turned, turned, layers)
    if part.ratio:
        pooled = 2.0 * part.series * h
        yield elementwise(p, "compress", pooled, h / part.ratio, layers)
    yield kv_store(p, h + float(part.entry_elements), layers)
    if part.index is not None:
        yield index_store(p, float(part.index.bytes_per_token), layers)
    for name, count, new, context in p.groups:
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
            scores = latent.index_scores(
                count,
                new,
                context * (1.0 / part.ratio),
                bytes_per_token=float(part.index.bytes_per_token * part.ratio),  # of an entry
                width=p.width,
                mask="square",
                **shape,
            )
            yield Op(
                f"index-scores-{name}" if name else "index-scores",
                "index",
                # Under a causal mask a query scores the entries before it: half, from empty.
                replace(
                    scores.telling(pairs_met=pairs(new, context, mask=mask_of(p)) / part.ratio),
                    flops=scores.flops * _share(p, new, context),
                ),
                layers,
                precision.attention_arithmetic,
                dims=shape
                | {"count": count, "new": new, "context": context}
                | {"top_k": float(part.index.top_k), "ratio": float(part.ratio)}
                | {"entry_bytes": float(part.index.bytes_per_token * part.ratio), "queries": heads},
                formats={"activations": precision.activations.name, "kv": precision.kv.name},
            )
        work = Work(
            flops=(4.0 * heads * h) * times(count, met),
            activation_bytes=(2.0 * heads * h * p.width) * times(count, new),
            kv_bytes=(h * precision.kv.width) * times(count, seen),
            made=by(
                _ENTRIES,
                {"heads": heads, "head_dim": h, "count": count, "new": new, "pairs_met": met}
                | {"keys": seen, "width": p.width, "kv_width": precision.kv.width},
            ),
        )
        yield Op(
            f"attention-compressed-{name}" if name else "attention-compressed",
            "decode-attention" if is_one(new) else "prefill-attention",
            work,
            layers,
            precision.attention_arithmetic,
            dims={
                "count": count,
                "new": new,
                "context": context,
                "heads": heads,
                "kv_heads": 1.0,
                "head_dim": h,
                "value_dim": h,
                "window": float(part.window),
                "chunk": 0.0,
                "ratio": float(part.ratio),
                "top_k": 0.0 if part.index is None else float(part.index.top_k),
            },
            formats={"activations": precision.activations.name, "kv": precision.kv.name},
        )
    yield from split(p, down, layers)
    yield from split(p, up, layers)


def _share(p: Pass, new: Number, context: Number) -> Number:
    """Pairs that a causal mask leaves, over all of them."""
    return pairs(new, context, mask=mask_of(p)) / (new * context)
