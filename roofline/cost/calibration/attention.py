"""Measured kernels of attention: of prompts, of decoding, inside a latent, and to chosen keys."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration.kernel import KernelQuery, columns
from roofline.cost.kernels import decode, latent, latent_prefill, prefill, sparse, sparse_columns
from roofline.cost.kernels.form import Dims
from roofline.cost.work import Array, Number, Op
from roofline.hardware.machine import Gpu
from roofline.model.precision import named

NARROW_HEAD: Final = 64.0
WIDE: Final = 256.0
"""Head widths for which SGLang and TensorRT-LLM have other kernels than for the rest. [1]"""
LATENT: Final = (512.0, 64.0)
"""Widths of latent and rotated key that kernels of latent attention are written for."""
EXPANDED: Final = (192.0, 128.0)
"""Widths of a key and a value that are made of a latent."""
CHUNK: Final = "several new tokens on a longer context were not measured"
CHOSEN: Final = "attention to chosen keys was not measured: as if they were all there are"

SPARSE: Final = "sparse-attention"
PROJECTED: Final = ("fp8_block", "bfloat16", "nvfp4")
"""Formats of the projections around, in the order in which a module would do: attention has none
of them."""
INDEX_LAUNCHES: Final = 0.3
ATTENTION_LAUNCHES: Final = 0.4
"""Shares of the small kernels of a module that are the index's (conversion, scores, choice, places)
and the attention's (places, metadata, join of splits); norms, rotation and the stores are operators
of their own. Assumed. [1]"""
WITHOUT_ENTRIES: Final = "a window without entries was not measured: as beside few entries"


def prefill_attention(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Several new tokens of a sequence: blocks of query rows; on a longer context, split keys."""
    if "square" in op.dims and ((found := _encoder(op)) or np.any(op.dims.get("window", 0.0))):
        return found
    if not _plain(op):
        return None
    shape = _attention(op)
    context, new, window = shape["context"], shape["new"], shape["window"]
    expanded = _expanded(op)
    hides = bool(np.any((window > 0) & (window < context)))
    chosen = "sparse" in op.dims or (expanded and hides)
    chunked = bool(np.any(context > new))
    low = "fp8" if _low(op) and "fp8" in gpu.flops_per_s else "bf16"
    if expanded and not hides:
        names = ("batch", "new", "context", "heads", "width", "kv_width")
        made = latent_prefill.latent_prefill_dims(*(shape[name] for name in names))
        return KernelQuery(
            "latent-prefill", _pairs(op), made, assumed=CHUNK * chunked, rows=context > new
        )
    made = prefill.prefill_dims(*shape.values())
    unlike = CHOSEN if chosen else CHUNK * chunked
    some = None if chosen else context > new
    own = _own_widths(shape, made)
    whole = KernelQuery(
        "prefill-attention", _pairs(op), made, low, None, unlike, rows=some, special=own
    )
    if not chunked or np.any(np.asarray(op.dims.get("sharers", 1.0)) > 1):
        return whole
    split = decode.decode_dims(*shape.values())
    other = KernelQuery("decode-attention", _pairs(op), split, assumed=unlike, rows=context > new)
    return whole._replace(instead=other)


def _encoder(op: Op) -> KernelQuery | None:
    """Tokens that all see each other, with keys for every query head."""
    d = op.dims
    alike = ((d["context"], d["new"]), (d["heads"], d["kv_heads"]), (d["head_dim"], d["value_dim"]))
    other = "naive" in d or "sharers" in d or np.any(np.asarray(d.get("window", 0.0)) > 0)
    if other or any(np.any(np.asarray(one) != another) for one, another in alike):
        return None
    shape = columns(batch=d["count"], seq=d["new"], heads=d["heads"], head_dim=d["head_dim"])
    return KernelQuery("encoder-attention", ("bfloat16",), shape)


def decode_attention(op: Op, gpu: Gpu) -> KernelQuery | None:
    """One new token of each sequence; expanded latent attention was not measured."""
    if not _plain(op) or _expanded(op):
        return None
    unlike = CHOSEN if "sparse" in op.dims else ""
    shape = _attention(op)
    made = decode.decode_dims(*shape.values())
    grouped = shape["heads"] / shape["kv_heads"]
    single = decode.decode_dims(*shape.values(), single=True)
    special = (
        ("wide-group", grouped > decode.MOST_GROUPED, single),
        ("alone", grouped == 1.0, single),
        *_own_widths(shape, made),
    )
    return KernelQuery("decode-attention", _pairs(op), made, assumed=unlike, special=special)


def _own_widths(
    shape: Mapping[str, Array], made: Dims
) -> tuple[tuple[str, NDArray[np.bool_], Dims], ...]:
    """Head widths that some engines have other kernels of attention for."""
    width, hides = shape["head_dim"], (shape["window"] > 0) & (shape["window"] < shape["context"])
    wide = width == WIDE
    return (
        ("wide-window", hides & wide, made),
        ("wide", wide, made),
        ("narrow", width == NARROW_HEAD, made),
    )


def _plain(op: Op) -> bool:
    """Whether there are kernels like it: fused, and of tokens rather than summaries."""
    d = op.dims
    return not ("naive" in d or np.any(np.asarray(d.get("ratio", 0.0)) > 0))


def _expanded(op: Op) -> bool:
    """Whether it is latent attention: its widths, and keys for every query head."""
    d = op.dims
    widths = float(np.mean(d["head_dim"])), float(np.mean(d["value_dim"]))
    return widths == EXPANDED and bool(np.all(d["heads"] == d["kv_heads"]))


def _attention(op: Op) -> dict[str, Array]:
    """Columns of attention in the order of the forms; of keys and values that differ, the mean.

    Devices that share a prompt have as many pairs each: the context is what queries see in the
    mean, were they neighbours. So it is where all new tokens see each other: T·S pairs are those of
    a causal chunk of T that ends (T − 1)/2 tokens later. A prompt is as many sequences as it has
    chunks; a single query sees its own so far.
    """
    d = op.dims
    count, new, context = d["count"], d["new"], d["context"]
    context = context - new * (d.get("sharers", 1.0) - 1.0) / 2.0
    if "square" in d:
        context = context + (new - 1.0) / 2.0
    window, chunk = d.get("window", 0.0), d.get("chunk", 0.0)
    if np.any(np.asarray(chunk) > 0):
        whole, own = np.asarray(context == new), np.minimum(context, chunk)
        decoded = np.asarray(new) == 1
        count = np.where(whole & ~decoded, count * context / own, count)
        new = np.where(whole, np.minimum(new, own), new)
        window = np.where(whole | decoded, window, chunk)
        context = np.where(whole, own, context)
        context = np.where(decoded, (context - 1.0) % chunk + 1.0, context)
    return columns(
        batch=count,
        new=new,
        context=context,
        heads=d["heads"],
        kv_heads=d["kv_heads"],
        head_dim=(d["head_dim"] + d["value_dim"]) / 2.0,
        window=window,
        width=named(op.formats["activations"]).width,
        kv_width=named(op.formats["kv"]).width,
    )


def latent_attention(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Attention inside the latent; chosen keys are read as if they were all there is."""
    d = op.dims
    if (float(np.mean(d["latent"])), float(np.mean(d["rope"]))) != LATENT:
        return None
    window = np.asarray(d.get("window", 0.0))
    context = np.where(window > 0, np.minimum(d["context"], window), d["context"])
    shape = columns(
        batch=d["count"],
        new=d["new"],
        context=context,
        heads=d["heads"],
        width=named(op.formats["activations"]).width,
        kv_width=named(op.formats["kv"]).width,
    )
    made = latent.latent_dims(*shape.values(), generation=gpu.architecture)
    low = "fp8" if _low(op) and "fp8" in gpu.flops_per_s else "bf16"
    unlike = CHOSEN if np.any(window > 0) else CHUNK * bool(np.any(shape["new"] > 1.0))
    return KernelQuery("latent-decode", _pairs(op), made, low, assumed=unlike)


def _pairs(op: Op) -> tuple[str, ...]:
    """Formats of activations and cache, as measured; TensorRT-LLM computes in that of the cache."""
    if _low(op):
        return ("bfloat16-fp8", "fp8-fp8", "bfloat16-bfloat16")
    return ("bfloat16-bfloat16",)


def _low(op: Op) -> bool:
    return named(op.formats["kv"]).width < 2.0


def is_sparse(op: Op) -> bool:
    """Whether an operator is the index of sparse attention, or attention to what it chose."""
    return op.kind == "index" or "sparse" in op.dims or "ratio" in op.dims


def sparse_attention(op: Op, gpu: Gpu, otherwise: KernelQuery | None) -> KernelQuery | None:
    """Part of a measured module of sparse attention; what is like it otherwise without one.

    Engines were measured as whole modules. An index and an attention ask for their part of the
    equation that was fitted to a module: projections, norms and the store are operators with
    kernels of their own, and are not in it.
    """
    if "square" in op.dims or "naive" in op.dims:
        return otherwise
    ratio = op.dims.get("ratio")
    bare = ratio is not None and np.all(np.asarray(ratio) == 0.0)
    return KernelQuery(
        SPARSE,
        _modules(op),
        _module_columns(op, gpu),
        assumed=WITHOUT_ENTRIES * bool(bare),
        otherwise=otherwise,
    )


def _modules(op: Op) -> tuple[str, ...]:
    """Modules that would do, the most alike first: network's kind, phase and formats."""
    d = op.dims
    module = "dsa" if "latent" in d else "msa"
    if "ratio" in d:
        module = "csa" if op.kind == "index" or np.any(np.asarray(d["top_k"]) > 0) else "hca"
    phase = "decode" if np.all(np.asarray(d["new"]) == 1.0) else "prefill"
    sixteen, low = "bfloat16-bfloat16", "bfloat16-fp8"
    cached = named(op.formats["kv"]).width if "kv" in op.formats else 2.0
    pairs = (low, "fp8-fp8", sixteen) if cached < 2.0 else (sixteen, low)
    return tuple(f"{module}-{phase}-{pair}-{each}" for pair in pairs for each in PROJECTED)


def _module_columns(op: Op, gpu: Gpu) -> dict[str, Array]:
    """Columns of the operator's part of a module."""
    d = op.dims
    wide = np.broadcast_arrays(*(np.atleast_1d(d[name]) for name in ("count", "new", "context")))
    batch, new, context = (np.asarray(each, dtype=np.float64) for each in wide)
    width = named(op.formats.get("activations", "bf16")).width
    own = sparse_columns.tokens(batch, new, context, width) | sparse.no_projections(batch)
    if op.kind == "index":
        return own | _index_columns(d, own, gpu)
    return own | _attention_columns(op, own)


def _index_columns(d: Mapping[str, Number], own: dict[str, Array], gpu: Gpu) -> dict[str, Array]:
    faster = gpu.rate("fp8") / gpu.rate("bf16") if "fp8" in gpu.flops_per_s else 1.0
    blocks = "kv_heads" in d
    made = sparse_columns.index(
        own,
        heads=float(d["heads"]),
        head_dim=float(d["head_dim"]),
        entry_bytes=float(d["entry_bytes"]),
        top_k=float(d["top_k"]),
        ratio=float(d.get("ratio", 1.0)),
        blocks=sparse_columns.BLOCK if blocks else 1.0,
        faster=1.0 if blocks else faster,
        rows=float(d["heads"]) if blocks else 1.0,
    )
    return {**made, **_around(own, d["queries"], INDEX_LAUNCHES)}


def _attention_columns(op: Op, own: dict[str, Array]) -> dict[str, Array]:
    d, kv_width = op.dims, named(op.formats["kv"]).width
    heads = own["heads"] * d["heads"]
    top_k = float(np.max(d.get("top_k", 0.0)))
    if "ratio" in d:
        made = sparse_columns.compressed(
            own,
            heads,
            head_dim=float(d["head_dim"]),
            window=float(np.max(d["window"])),
            ratio=float(np.max(d["ratio"])),
            top_k=top_k or None,
            kv_width=kv_width,
        )
    elif "latent" in d:
        widths = {"latent": float(d["latent"]), "rope": float(d["rope"])}
        made = sparse_columns.latent(own, heads, **widths, top_k=top_k, kv_width=kv_width)
    else:
        kv_heads = own["heads"] * d["kv_heads"]
        made = sparse_columns.grouped(
            own, heads, kv_heads, head_dim=float(d["head_dim"]), top_k=top_k, kv_width=kv_width
        )
    return {**made, **_around(own, d["heads"], ATTENTION_LAUNCHES)}


def _around(own: dict[str, Array], heads: Number, launches: float) -> dict[str, Array]:
    """Heads of the attention, by which modules are told apart, and the share of small kernels."""
    return {"heads": own["heads"] * heads, "launches": own["launches"] * launches}
