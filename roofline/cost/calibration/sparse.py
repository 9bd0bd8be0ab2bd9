"""Measured sparse attention that an operator asks for.

Engines were measured as whole modules. An index and an attention ask for their part of the equation
that was fitted to a module: projections, norms and the store are operators with kernels of their
own, and are not in it.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.kernels import sparse, sparse_columns
from roofline.cost.work import Array, Number, Op
from roofline.hardware.machine import Gpu
from roofline.model.precision import named

KIND: Final = "sparse-attention"
PROJECTED: Final = ("fp8_block", "bfloat16", "nvfp4")
"""Formats of the projections around, in the order in which a module would do: attention has none
of them."""
INDEX_LAUNCHES: Final = 0.3
ATTENTION_LAUNCHES: Final = 0.4
"""Shares of the small kernels of a module that are the index's (conversion, scores, choice, places)
and the attention's (places, metadata, join of splits); norms, rotation and the stores are operators
of their own. Assumed. [1]"""
WITHOUT_ENTRIES: Final = "a window without entries was not measured: as beside few entries"


def is_sparse(op: Op) -> bool:
    """Whether an operator is the index of sparse attention, or attention to what it chose."""
    return op.kind == "index" or "sparse" in op.dims or "ratio" in op.dims


def variants(op: Op) -> tuple[str, ...]:
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


def columns(op: Op, gpu: Gpu) -> dict[str, Array]:
    """Columns of the operator's part of a module."""
    d = op.dims
    wide = np.broadcast_arrays(*(np.atleast_1d(d[name]) for name in ("count", "new", "context")))
    batch, new, context = (np.asarray(each, dtype=np.float64) for each in wide)
    width = named(op.formats.get("activations", "bf16")).width
    own = sparse_columns.tokens(batch, new, context, width) | sparse.no_projections(batch)
    if op.kind == "index":
        return own | _index(d, own, gpu)
    return own | _attention(op, own)


def _index(d: Mapping[str, Number], own: dict[str, Array], gpu: Gpu) -> dict[str, Array]:
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


def _attention(op: Op, own: dict[str, Array]) -> dict[str, Array]:
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


def unlike(op: Op) -> str:
    """Why no such module was measured; empty where one was."""
    ratio = op.dims.get("ratio")
    return WITHOUT_ENTRIES if ratio is not None and np.all(np.asarray(ratio) == 0.0) else ""
