"""Which measured kernel an operator asks for, and its shape as that kernel's form takes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.kernels import decode, latent, prefill
from roofline.cost.kernels.form import Dims, Form
from roofline.cost.kernels.gemm import linear
from roofline.cost.kernels.loads import padding
from roofline.cost.work import Array, Number, Op
from roofline.hardware.machine import Gpu
from roofline.model.precision import named


@dataclass(frozen=True, slots=True)
class Asked:
    """A kernel as fits know it.

    Attributes
    ----------
    kind, variants
        Of kernel; formats in the order in which they would do.
    dims
        Columns of the form, one row per scenario.
    arithmetic
        Whose rate the device's form is given.
    form
        In place of the fitted one, with the same constants: for widths that were not measured.
    assumed
        Why no such kernel was measured anywhere, in words; empty where one was.
    part
        Which part of a fused kernel the operator is; empty for the whole.
    """

    kind: str
    variants: tuple[str, ...]
    dims: Dims
    arithmetic: str = "bf16"
    form: Form | None = None
    assumed: str = ""
    part: str = ""


SIXTEEN: Final = ("bf16", "fp16")
LATENT: Final = (512.0, 64.0)
"""Widths of latent and rotated key that kernels of latent attention are written for."""
EXPANDED: Final = (192.0, 128.0)
"""Of a key and a value made of it."""
NONE: Final = 1e-12
"""Rows of experts that get none, whose time is not used."""
QUERY_TILE: Final = 64.0
"""Query rows up to which a chunk is decoded: one tile."""
PASSES: Final[Mapping[str, tuple[str, float]]] = {
    "rotary": ("attn_rope", 4.0),
    "kv-store": ("attn_rope", 4.0),
    "activation": ("mlp_act", 6.0),
    "shared-activation": ("mlp_act", 6.0),
    "embedding": ("emb", 4.0),
}
"""Measured pass that an operator is like, and its bytes per element of the measured width."""
CHUNK: Final = "several new tokens on a longer context were not measured"
CHOSEN: Final = "attention to chosen keys was not measured: as if they were all there are"
NORM: Final = ("input_layernorm", 4.0)
ADD: Final = ("add", 6.0)


def asked(op: Op, gpu: Gpu) -> Asked | None:
    """Kernel that an operator asks for; None where none like it was measured.

    Parameters
    ----------
    op
        Of a step.
    gpu
        The device.
    """
    make = _MAKERS.get("moe" if "tokens" in op.dims else op.kind)
    return None if make is None else make(op, gpu)


def columns(**numbers: Number) -> dict[str, Array]:
    """Numbers and arrays as columns of one length."""
    wide = np.broadcast_arrays(*(np.atleast_1d(value) for value in numbers.values()))
    return {
        name: np.asarray(column, dtype=np.float64)
        for name, column in zip(numbers, wide, strict=True)
    }


def _gemm(op: Op, gpu: Gpu) -> Asked | None:
    """Linear layers: as measured in 16 bits and fp8; other widths take the form of the nearest."""
    dims = columns(m=op.dims["m"], n=op.dims["n"], k=op.dims["k"])
    stored = op.formats.get("weights", "bf16")
    if op.arithmetic in SIXTEEN:
        if stored in SIXTEEN:
            return Asked("gemm", ("bfloat16",), dims, op.arithmetic)
        form = linear(2.0, stored=named(stored).width)
        return Asked("gemm", ("bfloat16",), dims, op.arithmetic, form, _unlike(stored))
    if op.arithmetic == "fp8" and named(stored).bits >= 8:
        block = ("fp8_block", "fp8") if stored in ("fp8-block", "mxfp8") else ("fp8", "fp8_block")
        return Asked("gemm", block, dims, "fp8")
    if op.arithmetic in ("int8", "fp8", "fp4"):
        width = named(op.formats.get("activations", "fp8")).width
        form = linear(width, stored=named(stored).width, quantised=True)
        return Asked("gemm", ("fp8",), dims, op.arithmetic, form, _unlike(stored))
    return None


def _prefill(op: Op, gpu: Gpu) -> Asked | None:
    """Several new tokens of a sequence: blocks of query rows, or of one tile as if decoded."""
    d = op.dims
    if "square" in d or "naive" in d:
        return None
    sparse = "sparse" in d
    shape = _attention(op)
    context, new = shape["context"], shape["new"]
    expanded = _widths(op) == EXPANDED
    chunked = bool(np.any(context > new))
    low = "fp8" if _low(op) and "fp8" in gpu.flops_per_s else "bf16"
    if expanded:
        names = ("batch", "new", "context", "heads", "width", "kv_width")
        made = latent.expanded_dims(*(shape[name] for name in names))
        return Asked("latent-prefill", _pairs(op), made, assumed=CHUNK * chunked)
    few = new * shape["heads"] / shape["kv_heads"] <= QUERY_TILE
    if chunked and bool(np.all(few)):
        made = decode.decode_dims(*shape.values())
        return Asked("decode-attention", _pairs(op), made, assumed=CHUNK)
    made = prefill.prefill_dims(*shape.values())
    unlike = CHOSEN if sparse else CHUNK * chunked
    return Asked("prefill-attention", _pairs(op), made, low, assumed=unlike)


def _decode(op: Op, gpu: Gpu) -> Asked | None:
    """One new token of each sequence; expanded latent attention was not measured."""
    if "naive" in op.dims or _widths(op) == EXPANDED:
        return None
    unlike = CHOSEN if "sparse" in op.dims else ""
    made = decode.decode_dims(*_attention(op).values())
    return Asked("decode-attention", _pairs(op), made, assumed=unlike)


def _widths(op: Op) -> tuple[float, float]:
    """Of a key and a value."""
    return float(np.mean(op.dims["head_dim"])), float(np.mean(op.dims["value_dim"]))


def _attention(op: Op) -> dict[str, Array]:
    """Columns of attention in the order of the forms; of keys and values that differ, the mean."""
    d = op.dims
    span = np.maximum(d.get("window", 0.0), d.get("chunk", 0.0))
    return columns(
        batch=d["count"],
        new=d["new"],
        context=d["context"],
        heads=d["heads"],
        kv_heads=d["kv_heads"],
        head_dim=(d["head_dim"] + d["value_dim"]) / 2.0,
        window=span,
        width=named(op.formats["activations"]).width,
        kv_width=named(op.formats["kv"]).width,
    )


def _latent(op: Op, gpu: Gpu) -> Asked | None:
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
    made = latent.latent_dims(**shape, generation=gpu.architecture)
    low = "fp8" if _low(op) and "fp8" in gpu.flops_per_s else "bf16"
    unlike = CHOSEN if np.any(window > 0) else CHUNK * bool(np.any(shape["new"] > 1.0))
    return Asked("latent-decode", _pairs(op), made, low, assumed=unlike)


def _pairs(op: Op) -> tuple[str, ...]:
    """Formats of activations and cache, as measured; TensorRT-LLM computes in that of the cache."""
    if _low(op):
        return ("bfloat16-fp8", "fp8-fp8", "bfloat16-bfloat16")
    return ("bfloat16-bfloat16",)


def _low(op: Op) -> bool:
    return named(op.formats["kv"]).width < 2.0


def _pointwise(op: Op, gpu: Gpu) -> Asked | None:
    """One pass over activations, of the measured pass that it is most like."""
    d = op.dims
    if "m" not in d:
        return None
    base = op.name.rsplit("-", 1)[0] if op.name[-1:].isdigit() else op.name
    like, traffic = NORM if base.endswith("norm") else PASSES.get(base, ADD)
    moved = (d["reads"] + d["writes"]) * 2.0
    return Asked("pointwise", (like,), columns(m=d["m"], width=moved / traffic), "fp16")


def _experts(op: Op, gpu: Gpu) -> Asked | None:
    """A part of a fused mixture of experts."""
    d = op.dims
    stored = op.formats["weights"]
    width, activations = named(stored).width, named(op.formats["activations"]).width
    rows, touched = np.asarray(d["rows"]), np.asarray(d["touched"])
    tiles, padded = padding(rows, touched)
    shape = columns(
        tokens=d["tokens"],
        hidden=d["hidden"],
        inter=d["inter"],
        active=d["active"],
        local=d["local"],
        matrices=d["matrices"],
        weight_width=width,
        width=2.0,
        rows=np.maximum(rows, NONE),
        touched=np.maximum(touched, NONE),
        tiles=tiles,
        padded=padded,
    )
    variants, arithmetic, assumed = _expert_formats(stored, activations, gpu)
    if float(np.mean(d["matrices"])) < 3.0:
        plain = tuple(f"{variant}-nongated" for variant in variants)
        variants = (*plain, *variants)
    return Asked("moe", variants, shape, arithmetic, assumed=assumed, part=_part(op))


def _expert_formats(stored: str, activations: float, gpu: Gpu) -> tuple[tuple[str, ...], str, str]:
    """Variants that would do, the rate they are given, and why none is quite it."""
    if stored in SIXTEEN:
        return ("bfloat16",), "bf16", ""
    low = ("fp8", "fp8_block")
    if activations < 1.0 and "fp4" in gpu.flops_per_s:
        return low, "fp4", _unlike(stored)
    if activations < 2.0 and "fp8" in gpu.flops_per_s:
        if stored == "fp8-block":
            return low[::-1], "fp8", ""
        return low, "fp8", _unlike(stored) * (named(stored).bits < 8)
    if activations < 2.0 and "int8" in gpu.flops_per_s:
        return low, "int8", _unlike(stored)
    mx = stored.startswith("mxfp4")
    return ("w4a16_mxfp4", "bfloat16"), "bf16", "" if mx else _unlike(stored)


def _unlike(stored: str) -> str:
    return f"no product with {stored} weights was measured: the nearest one, at these widths"


def _part(op: Op) -> str:
    """``"first"`` and ``"second"`` matrix, or what is ``"around"`` them."""
    if op.kind == "moe":
        return "second" if op.name.startswith("experts-down") else "first"
    return "around" if op.name.startswith("experts-combine") else "none"


_MAKERS: Final[Mapping[str, Callable[[Op, Gpu], Asked | None]]] = {
    "gemm": _gemm,
    "prefill-attention": _prefill,
    "decode-attention": _decode,
    "latent-attention": _latent,
    "pointwise": _pointwise,
    "lookup": _pointwise,
    "moe": _experts,
}
