"""Measured sparse attention as columns of `roofline.cost.kernels.sparse`.

Whole modules have the projections of a network, whose shapes the catalog knows; kernels have only
their own part. Networks that differ in widths share a fit.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.held_out import Labels
from roofline.bench.kernel_rows import SIZES, WEIGHTS, WIDTHS, RowGroup, group_of, parts
from roofline.cost.kernels import choice, sparse, sparse_columns
from roofline.cost.kernels.form import Form
from roofline.cost.kernels.gemm import PRODUCTS
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.hardware.catalog import gpu
from roofline.hardware.machine import Gpu
from roofline.model.architecture import Attention, CompressedAttention, Mla
from roofline.model.catalog import architecture

if TYPE_CHECKING:
    import pandas

KEY: Final = (
    "gpu", "backend", "version", "op", "kernel", "phase", "dtype", "kv_dtype", "gemm_dtype",
    "compress_ratio", "score_mode",
)  # fmt: skip
DENSE: Final = "dense"
"""Part of the name of kernels that expand the latent and attend to all of it."""
UNFUSED: Final = "default"
"""TensorRT-LLM's attention to chosen blocks on devices that its kernels are not for."""
GRAPHS: Final = 512.0
"""Sequences of the largest step that engines keep as a graph of kernels (SGLang
``cuda_graph_max_bs``, vLLM ``max_cudagraph_capture_size``)."""
TILED: Final = (64, 128)
"""Multiples that outputs and depth of a matrix must be for DeepGEMM. vLLM multiplies others, as the
weights of an index of 32 heads, by CUTLASS. Source: vLLM, ``vllm/utils/deep_gemm.py``,
``should_use_deepgemm_for_fp8_linear``."""
SHORT: Final = "FLASHINFER_MLA_SPARSE"
"""vLLM's kernel whose blocks are of few heads, where a device has few."""
COPIES: Final = "msa_fmha"
"""TensorRT-LLM's kernel that decodes from a copy of the cache where a device has one key head."""
PAGED: Final = "paged"
"""Part of the name of scores whose every query is a block of its own."""
FEW: Final = 5
MOST: Final = 0.5
"""Families below which, and share of the rows in one from which, batches are left out apart too."""
Mixer = Attention | CompressedAttention | Mla


@cache
def network(name: str, ratio: int) -> tuple[Mixer, int]:
    """Sparse attention of a network, and the width of the model; of several the one of a ratio.

    Raises:
        InputError: The network has none like it.
    """
    _, _, short = name.rpartition("/")
    found = architecture(ALIASES.get(name, name))
    for kind in found.kinds:
        part = kind.mixer
        if isinstance(part, CompressedAttention):
            if part.ratio == ratio:
                return part, found.d_model
        elif isinstance(part, Mla | Attention) and part.index is not None and part.index.computes:
            return part, found.d_model
    raise InputError(
        f"{short} has no sparse attention of {ratio} tokens an entry",
        hint="name a network of the catalog that has: roofline models",
    )


ALIASES: Final = {"nvidia/GLM-5-NVFP4": "zai-org/GLM-5", "nvidia/GLM-5.2-NVFP4": "zai-org/GLM-5.2"}
"""Networks whose weights alone differ."""


def sparse_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Sparse attention, modules and kernels; a family is a network and its heads on a device."""
    for name, rows in parts(frame, [name for name in KEY if name in frame]):
        device, op = gpu(name["gpu"]), name.get("op", "msa")
        order, columns = [], []
        for model, some in rows.groupby("model", observed=True):
            columns.append(_columns(name, op, str(model), some, device))
            order.append(some.index.to_numpy())
        dims = {key: np.concatenate([each[key] for each in columns]) for key in columns[0]}
        sorted_ = rows.loc[np.concatenate(order)]
        yield group_of(name, form_of(op, name), dims, sorted_, _families(sorted_))


def _families(rows: "pandas.DataFrame") -> Labels:
    """Networks and heads; where these are few or one has most rows, sizes of batches too."""
    rows = rows.assign(size=np.digitize(rows.batch, SIZES))
    found = np.zeros(len(rows), dtype=np.int64)
    for more in ([], ["size"], ["batch"]):
        names = ["model", "n_heads", *more]
        found = rows.groupby(names, observed=True).ngroup().to_numpy().astype(np.int64)
        _, many = np.unique(found, return_counts=True)
        if len(many) >= FEW and many.max() <= MOST * len(found):
            break
    return found


def form_of(op: str, name: dict[str, str]) -> Form:
    """Form of a kind of rows."""
    if op.endswith("topk"):
        return choice.FORM
    if op.endswith("logits"):
        return sparse.SCORING
    if op.endswith("attn"):
        return sparse.ATTENTION
    if DENSE in name["kernel"]:
        return sparse.DENSE_MODULE
    if op == "msa" and name["kernel"] == UNFUSED:
        return sparse.UNFUSED_MODULE
    if name["phase"] == "decode":
        return sparse.COPIED_MODULE if COPIES in name["kernel"] else sparse.STEP_MODULE
    if op == "msa":
        return sparse.FOLDED_MODULE
    blocks = (op, name["backend"], name["gemm_dtype"]) == ("dsa", "vllm", "fp8_block")
    if name["kernel"] == SHORT:
        return sparse.SHORT_UNALIGNED_MODULE if blocks else sparse.SHORT_MODULE
    return sparse.UNALIGNED_MODULE if blocks else sparse.MODULE


def _columns(
    name: dict[str, str], op: str, model: str, rows: "pandas.DataFrame", device: Gpu
) -> dict[str, Array]:
    part, d = network(model, int(float(name.get("compress_ratio", "1"))))
    batch, new, context, heads = (
        rows[column].to_numpy(np.float64) for column in ("batch", "seq_q", "seq_kv", "n_heads")
    )
    own = sparse_columns.tokens(batch, new, context)
    low = device.rate("fp8") / device.rate("bf16") if "fp8" in device.flops_per_s else 1.0
    whole = not op.endswith(("topk", "logits", "attn"))
    dense = DENSE in name["kernel"]
    own |= sparse.no_projections(batch)
    eager = (name["phase"] != "decode") | (batch > GRAPHS)
    own["hosted"] = (eager & whole).astype(np.float64)
    if whole:
        own |= _projections(name["gemm_dtype"], part, d, own, heads, op, device, dense=dense)
    if "unaligned" in {each.name for each in form_of(op, name).constants}:
        (wide, deep), linears = TILED, part.linears(d)
        own["unaligned"] = own["unaligned"] + sum(m.n % wide + m.k % deep > 0 for m in linears)
    if (whole and "skip" not in op) or op.endswith(("topk", "logits")):
        own |= _index(part, own, heads, low)
        if op.endswith("topk"):
            own["index_macs"] = own["entry_bytes"] = np.zeros_like(batch)
        if op.endswith("logits"):
            own["chooses"] = np.zeros_like(batch)
            own["busy"] = np.ones_like(batch)
            own["judged"] = own["scored"]
            if PAGED in name["kernel"]:
                own["index_rows"] = np.full_like(batch, sparse.SCORED)
    if whole or op.endswith("attn"):
        own |= _attention(part, own, heads, WIDTHS[name["kv_dtype"]], dense=dense)
    if op == "msa" and name["kernel"] == UNFUSED:
        own["unfused"] = own["copied"] = np.ones_like(batch)
    if COPIES in name["kernel"] and name["phase"] == "decode":
        own["copied"] = (own["groups"] == 1.0).astype(np.float64)
    return {**own, "heads": heads}


def _index(part: Mixer, own: dict[str, Array], heads: Array, low: float) -> dict[str, Array]:
    index = part.index
    if index is None:
        return {}
    shape = {"heads": float(index.heads), "head_dim": float(index.head_dim)}
    if isinstance(part, Attention):
        block = sparse_columns.BLOCK
        return sparse_columns.index(
            own,
            **shape,
            entry_bytes=float(index.bytes_per_token),
            top_k=float(index.top_k),
            blocks=block,
            rows=float(index.heads),
        )
    ratio = float(part.ratio) if isinstance(part, CompressedAttention) else 1.0
    return sparse_columns.index(
        own,
        **shape,
        entry_bytes=float(index.bytes_per_token) * ratio,
        top_k=float(index.top_k),
        ratio=ratio,
        faster=low,
    )


def _attention(
    part: Mixer, own: dict[str, Array], heads: Array, kv_width: float, *, dense: bool
) -> dict[str, Array]:
    top_k = None if part.index is None else float(part.index.top_k)
    if isinstance(part, CompressedAttention):
        return sparse_columns.compressed(
            own,
            heads,
            head_dim=float(part.head_dim),
            window=float(part.window),
            ratio=float(part.ratio),
            top_k=top_k,
            kv_width=kv_width,
        )
    assert top_k is not None, "attention without an index"
    if isinstance(part, Attention):
        kv_heads = np.maximum(np.ceil(part.kv_heads * heads / part.heads), 1.0)
        return sparse_columns.grouped(
            own, heads, kv_heads, head_dim=float(part.head_dim), top_k=top_k, kv_width=kv_width
        )
    if dense:
        key, value = float(part.nope_dim + part.rope_dim), float(part.value_dim)
        return sparse_columns.dense(own, heads, key=key, value=value, width=2.0)
    return sparse_columns.latent(
        own,
        heads,
        latent=float(part.latent),
        rope=float(part.rope_dim),
        top_k=top_k,
        kv_width=kv_width,
    )


def _projections(
    stored: str,
    part: Mixer,
    d: int,
    own: dict[str, Array],
    heads: Array,
    op: str,
    device: Gpu,
    *,
    dense: bool,
) -> dict[str, Array]:
    """Matrices of a module, a device's share of them."""
    share = heads / part.heads
    matrices: list[tuple[Array, Array]] = []
    for matrix in part.linears(d):
        n, k = matrix.n * np.ones_like(heads), matrix.k * np.ones_like(heads)
        if matrix.name.startswith("index") and "skip" in op:
            continue
        if isinstance(part, Mla) and matrix.name == "kv-up":
            if dense:
                matrices.append((n * share * own["context"] / own["new"], k))
            else:
                matrices.append((part.nope_dim * heads, k))
                matrices.append((part.value_dim * heads, k))
            continue
        if isinstance(part, Attention) and matrix.name == "qkv":
            kv = np.maximum(np.ceil(part.kv_heads * share), 1.0)
            n = part.head_dim * (heads + 2.0 * kv)
        elif matrix.split == "column":
            n = n * share
        elif matrix.split == "row":
            k = k * share
        matrices.append((n, k))
    rate = PRODUCTS[stored].arithmetic
    faster = device.rate(rate) / device.rate("bf16") if rate in device.flops_per_s else 1.0
    return sparse.projections(matrices, heads, weight_width=WEIGHTS[stored], faster=faster)
