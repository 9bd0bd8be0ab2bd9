"""Which measured kernel an operator asks for, and its shape as that kernel's form takes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration import sparse
from roofline.cost.calibration.rows import FEW_TOKENS, VERIFIED_TOKENS
from roofline.cost.calibration.wires import OPERATIONS
from roofline.cost.kernels import decode, latent, prefill, recurrent
from roofline.cost.kernels.experts import GATED, expert_dims, tallest
from roofline.cost.kernels.form import Dims, Form
from roofline.cost.kernels.gemm import linear
from roofline.cost.kernels.latent_module import PLAIN
from roofline.cost.kernels.loads import padding
from roofline.cost.work import Array, Number, Op
from roofline.hardware.machine import Gpu
from roofline.model.architecture import STREAMS
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
    instead
        Another kernel that would do: whichever takes less time does it.
    otherwise
        Kernel that is asked for where none like this one was measured.
    own
        Whether only a kernel of this engine, measured on this device, would do.
    beside
        What a fused kernel does besides: it takes at least as long.
    then
        Another kernel that runs after it: their times add up.
    cold
        Whether it was measured on a state that may have stayed in the last-level cache, which is
        in memory in a step.
    rows
        Rows that ``assumed`` and ``instead`` are about; None for all.
    special
        Shapes that some engines have a kernel of its own for, the first that fits: the end of its
        variant, which rows are so, and the columns it takes.
    """

    kind: str
    variants: tuple[str, ...]
    dims: Dims
    arithmetic: str = "bf16"
    form: Form | None = None
    assumed: str = ""
    part: str = ""
    instead: "Asked | None" = None
    otherwise: "Asked | None" = None
    own: bool = False
    beside: "Asked | None" = None
    then: "Asked | None" = None
    cold: bool = False
    rows: NDArray[np.bool_] | None = None
    special: tuple[tuple[str, NDArray[np.bool_], Dims], ...] = ()


SIXTEEN: Final = ("bf16", "fp16")
NARROW_HEAD: Final = 64.0
WIDE: Final = 256.0
"""Head widths for which SGLang and TensorRT-LLM have other kernels than for the rest. [1]"""
LATENT: Final = (512.0, 64.0)
"""Widths of latent and rotated key that kernels of latent attention are written for."""
EXPANDED: Final = (192.0, 128.0)
"""Of a key and a value made of it."""
NONE: Final = 1e-12
"""Rows of experts that get none, whose time is not used."""
NARROW_EXPERTS: Final[Mapping[str, tuple[str, str]]] = {
    "nvfp4": ("nvfp4", "fp4"),
    "mxfp4": ("w4a8_mxfp4_mxfp8", "fp8"),
    "int4": ("w4afp8", "fp8"),
}
"""Measured mixtures of experts of 4-bit weights and narrow activations, and their arithmetic, by
how the format of the weights begins; engines multiply MXFP4 by MXFP8."""
WIDENED_EXPERTS: Final[Mapping[str, str]] = {"mxfp4": "w4a16_mxfp4", "int4": "int4_wo"}
"""Those whose weights are widened to 16 bits in the kernel."""
BITS: Final[Mapping[str, float]] = {"bf16": 16.0, "fp16": 16.0, "fp8": 8.0, "int8": 8.0, "fp4": 4.0}
"""Bits of an activation by arithmetic."""
PASSES: Final[Mapping[str, tuple[str, float]]] = {
    "rotary": ("attn_rope", 4.0),
    "kv-store": ("attn_rope", 4.0),
    "activation": ("mlp_act", 6.0),
    "shared-activation": ("mlp_act", 6.0),
    "embedding": ("emb", 4.0),
}
"""Measured pass that an operator is like, and its bytes per element of the measured width."""
WEIGHT_ONLY: Final[Mapping[float, str]] = {8.0: "int8_wo", 4.0: "int4_wo"}
"""Measured products of 16-bit activations with integer weights, by their bits without scales."""
CHUNK: Final = "several new tokens on a longer context were not measured"
CHOSEN: Final = "attention to chosen keys was not measured: as if they were all there are"
NORM: Final = ("input_layernorm", 4.0)
RESIDUAL: Final = ("norm", "embedding-norm", "final-norm")
"""Norms that add the residual first: each element is read and written twice."""
ADD: Final = ("add", 6.0)
LAYERS: Final[Mapping[str, str]] = {
    "gated-delta": "gdn",
    "kimi-delta": "kda",
    "mamba2": "mamba2",
}
"""Recurrent layers whose kernels were measured, as sources call them."""
VERIFIED: Final = "a few tokens at once were not measured: steps, one after the other"


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
    found = None if make is None else make(op, gpu)
    return _sparse(op, gpu, found) if sparse.is_sparse(op) else found


def _sparse(op: Op, gpu: Gpu, otherwise: Asked | None) -> Asked | None:
    """A part of a module of sparse attention; what is like it otherwise where none was measured."""
    if "square" in op.dims or "naive" in op.dims:
        return otherwise
    return Asked(
        sparse.KIND,
        sparse.variants(op),
        sparse.columns(op, gpu),
        assumed=sparse.unlike(op),
        otherwise=otherwise,
    )


def alike(op: Op) -> str:
    """Part of an operator's name that its kernel depends on: others of its kind share a price."""
    if op.kind == "collective":
        return next((begin for begin in OPERATIONS if op.name.startswith(begin)), op.name)
    if op.kind == "gemm":
        own = op.name.startswith(("q-absorb", "v-absorb")) or _base(op) == STREAMS
        return _base(op) if own else op.kind
    return RESIDUAL[0] if op.kind == "pointwise" and _base(op) in RESIDUAL else op.name


def columns(**numbers: Number) -> dict[str, Array]:
    """Numbers and arrays as columns of one length."""
    wide = np.broadcast_arrays(*(np.atleast_1d(value) for value in numbers.values()))
    return {
        name: np.asarray(column, dtype=np.float64)
        for name, column in zip(numbers, wide, strict=True)
    }


def _gemm(op: Op, gpu: Gpu) -> Asked | None:
    """Linear layers: as measured in their number format; others take the form of the nearest."""
    dims = columns(m=op.dims["m"], n=op.dims["n"], k=op.dims["k"])
    stored = op.formats.get("weights", "bf16")
    if op.name.startswith(("q-absorb", "v-absorb")):
        return _heads(op, dims, stored)
    width = named(stored).width
    if _base(op) == STREAMS:
        return _mixed(dims)
    if op.arithmetic in SIXTEEN:
        if stored in SIXTEEN:
            return Asked("gemm", ("bfloat16",), dims, op.arithmetic)
        own = WEIGHT_ONLY.get(named(stored).bits // 4 * 4) if stored.startswith("int") else None
        form = linear(2.0, stored=width)
        if own is None:
            return Asked("gemm", ("bfloat16",), dims, op.arithmetic, form, _unlike(stored))
        return Asked("gemm", (own, "bfloat16"), dims, op.arithmetic, form)
    if op.arithmetic == "fp8" and named(stored).bits >= 8:
        near = ("fp8_block", "fp8") if stored in ("fp8-block", "mxfp8") else ("fp8", "fp8_block")
        return Asked("gemm", near, dims, "fp8")
    if op.arithmetic in ("int8", "fp8", "fp4"):
        activations = named(op.formats.get("activations", "fp8")).width
        if op.arithmetic == "fp4" and stored == "nvfp4":
            return Asked("gemm", ("nvfp4",), dims, "fp4")
        if op.arithmetic == "int8" and stored == "int8":
            return Asked("gemm", ("sq",), dims, "int8")
        form = linear(activations, stored=width, quantised=True)
        near = ("nvfp4", "fp8") if op.arithmetic == "fp4" else ("fp8",)
        return Asked("gemm", near, dims, op.arithmetic, form, _unlike(stored))
    return None


def _mixed(dims: Dims) -> Asked:
    """Coefficients of hyper-connections, and the streams joined to the input of one part.

    From n streams of a width D, n·D wide, (2 + n)·n coefficients are made.
    """
    streams = np.sqrt(1.0 + dims["n"]) - 1.0
    shape = columns(tokens=dims["m"], hidden=dims["k"] / streams, streams=streams, sites=1.0)
    return Asked("hyper-connections", ("pre",), shape)


def _heads(op: Op, dims: Dims, stored: str) -> Asked:
    """A matrix for each head, into the latent or out of it."""
    into = op.name.startswith("q-absorb")
    wide = PLAIN if not into else LATENT[0]
    low = op.arithmetic == "fp8"
    shape = columns(
        tokens=dims["m"],
        heads=dims["n"] / wide,
        inner=PLAIN if into else LATENT[0],
        weight_width=named(stored).width,
        quantised=float(low),
    )
    name = "mla_gen_pre" if into else "mla_gen_post"
    formats = (f"{name}-fp8", f"{name}-bfloat16") if low else (f"{name}-bfloat16",)
    unlike = "" if low or stored in SIXTEEN else _unlike(stored)
    return Asked("latent-heads", formats, shape, op.arithmetic, assumed=unlike)


def _prefill(op: Op, gpu: Gpu) -> Asked | None:
    """Several new tokens of a sequence: blocks of query rows; on a longer context, split keys."""
    if "square" in op.dims:
        return _encoder(op)
    if not _plain(op):
        return None
    shape = _attention(op)
    context, new, window = shape["context"], shape["new"], shape["window"]
    expanded = _expanded(op)
    hides = bool(np.any((window > 0) & (window < context)))
    sparse = "sparse" in op.dims or (expanded and hides)
    chunked = bool(np.any(context > new))
    low = "fp8" if _low(op) and "fp8" in gpu.flops_per_s else "bf16"
    if expanded and not hides:
        names = ("batch", "new", "context", "heads", "width", "kv_width")
        made = latent.expanded_dims(*(shape[name] for name in names))
        return Asked(
            "latent-prefill", _pairs(op), made, assumed=CHUNK * chunked, rows=context > new
        )
    made = prefill.prefill_dims(*shape.values())
    unlike = CHOSEN if sparse else CHUNK * chunked
    some = None if sparse else context > new
    own = _own_widths(shape, made)
    whole = Asked("prefill-attention", _pairs(op), made, low, None, unlike, rows=some, special=own)
    if not chunked or np.any(np.asarray(op.dims.get("sharers", 1.0)) > 1):
        return whole
    split = decode.decode_dims(*shape.values())
    other = Asked("decode-attention", _pairs(op), split, assumed=unlike, rows=context > new)
    return replace(whole, instead=other)


def _encoder(op: Op) -> Asked | None:
    """Tokens that all see each other, with keys for every query head."""
    d = op.dims
    alike = ((d["context"], d["new"]), (d["heads"], d["kv_heads"]), (d["head_dim"], d["value_dim"]))
    other = "naive" in d or "sharers" in d or np.any(np.asarray(d.get("window", 0.0)) > 0)
    if other or any(np.any(np.asarray(one) != another) for one, another in alike):
        return None
    shape = columns(batch=d["count"], seq=d["new"], heads=d["heads"], head_dim=d["head_dim"])
    return Asked("encoder-attention", ("bfloat16",), shape)


def _decode(op: Op, gpu: Gpu) -> Asked | None:
    """One new token of each sequence; expanded latent attention was not measured."""
    if not _plain(op) or _expanded(op):
        return None
    unlike = CHOSEN if "sparse" in op.dims else ""
    shape = _attention(op)
    made = decode.decode_dims(*shape.values())
    grouped = shape["heads"] / shape["kv_heads"]
    single = decode.decode_dims(*(shape | {"kv_heads": shape["heads"]}).values())
    special = (
        ("wide-group", grouped > decode.MOST_GROUPED, single),
        ("alone", grouped == 1.0, made),
        *_own_widths(shape, made),
    )
    return Asked("decode-attention", _pairs(op), made, assumed=unlike, special=special)


def _own_widths(
    shape: Mapping[str, Array], made: Dims
) -> tuple[tuple[str, NDArray[np.bool_], Dims], ...]:
    """Head widths that some engines have other kernels of attention for."""
    width, hides = shape["head_dim"], (shape["window"] > 0) & (shape["window"] < shape["context"])
    return ("narrow", width == NARROW_HEAD, made), ("wide-window", hides & (width == WIDE), made)


def _plain(op: Op) -> bool:
    """Whether there are kernels like it: fused, causal, and of tokens rather than summaries."""
    d = op.dims
    return not ("square" in d or "naive" in d or np.any(np.asarray(d.get("ratio", 0.0)) > 0))


def _expanded(op: Op) -> bool:
    """Whether it is latent attention: its widths, and keys for every query head."""
    d = op.dims
    widths = float(np.mean(d["head_dim"])), float(np.mean(d["value_dim"]))
    return widths == EXPANDED and bool(np.all(d["heads"] == d["kv_heads"]))


def _attention(op: Op) -> dict[str, Array]:
    """Columns of attention in the order of the forms; of keys and values that differ, the mean.

    Devices that share a prompt have as many pairs each: the context is what queries see in the
    mean, were they neighbours. A prompt is as many sequences as it has chunks; a single query sees
    its own so far.
    """
    d = op.dims
    count, new, context = d["count"], d["new"], d["context"]
    context = context - new * (d.get("sharers", 1.0) - 1.0) / 2.0
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
    if "taps" in d:
        return _convolution(op)
    base = _base(op)
    if "streams" in d and base in RESIDUAL:
        return _streams(op)
    moved = (d["reads"] + d["writes"]) * 2.0
    if base in RESIDUAL:
        # With the residual: the traffic of an addition, and at least the norm of what it adds.
        (norm, _), (add, traffic) = NORM, ADD
        alone = Asked("pointwise", (norm,), columns(m=d["m"], width=d["writes"] / 2.0), "fp16")
        dims = columns(m=d["m"], width=moved / traffic)
        return Asked("pointwise", (add,), dims, "fp16", beside=alone)
    like, traffic = NORM if base.endswith("norm") else PASSES.get(base, ADD)
    return Asked("pointwise", (like,), columns(m=d["m"], width=moved / traffic), "fp16")


def _streams(op: Op) -> Asked:
    """Residual streams mixed after one part, then the norm of what they are joined to."""
    d = op.dims
    hidden = d["writes"] / (1.0 + d["streams"])
    shape = columns(tokens=d["m"], hidden=hidden, streams=d["streams"], sites=1.0)
    norm = Asked("pointwise", (NORM[0],), columns(m=d["m"], width=hidden), "fp16")
    return Asked("hyper-connections", ("post",), shape, then=norm)


def _convolution(op: Op) -> Asked | None:
    """Short convolution before a state: over a prompt, or with the last inputs of each sequence."""
    d, layer = op.dims, LAYERS.get(op.formats["layer"])
    if layer is None:
        return None
    shape = columns(batch=d["count"], new=d["new"], channels=d["channels"], taps=d["taps"])
    phase = _phase(op)
    variants = _of_layer(layer, phase, "convolution")
    return Asked("linear-attention", variants, shape, cold=phase != "prefill")


def _scan(op: Op, gpu: Gpu) -> Asked | None:
    """State of a recurrent layer: chunk after chunk, or token after token.

    The convolution is an operator of its own, and so is the gated norm: kernels that fuse them
    stand for no operator.
    """
    d, layer = op.dims, LAYERS.get(op.formats["layer"])
    if layer is None:
        return None
    shape = columns(
        batch=d["count"],
        new=d["new"],
        key_heads=d["key_heads"],
        heads=d["heads"],
        key_dim=d["key_dim"],
        value_dim=d["value_dim"],
        chunk=d["chunk"],
    )
    phase = _phase(op)
    variants = _of_layer(layer, phase, "state")
    dims = recurrent.state_dims(*shape.values(), solved=layer != "mamba2")
    unlike = VERIFIED if phase == "verify" and layer != "kda" else ""
    return Asked("linear-attention", variants, dims, assumed=unlike, cold=phase != "prefill")


def _phase(op: Op) -> str:
    """Phase whose kernels the sequences of an operator run; all of them are of one."""
    new = float(np.max(op.dims["new"]))
    return "decode" if new <= 1.0 else "verify" if new <= VERIFIED_TOKENS else "prefill"


def _of_layer(layer: str, phase: str, step: str) -> tuple[str, ...]:
    """Variants that would do: without a kernel for verification, the one for a token."""
    phases = ("verify", "decode") if phase == "verify" else (phase,)
    found = [f"{layer}-{each}-{step}" for each in phases]
    if phase != "prefill":
        found += [f"{layer}-decode-{step}-unpacked"]
    return tuple(found)


def _base(op: Op) -> str:
    """Name of an operator without the number that tells it from others of that name."""
    return op.name.rsplit("-", 1)[0] if op.name[-1:].isdigit() else op.name


def _experts(op: Op, gpu: Gpu) -> Asked | None:
    """A part of a fused mixture of experts; of one whose tokens come from others, its own kernel.

    Some engines have kernels of their own for some cases: SGLang for a gate that is limited to
    groups, vLLM for spread experts, TensorRT-LLM for few tokens.
    """
    d = op.dims
    stored = op.formats["weights"]
    width, activations = named(stored).width, named(op.formats["activations"]).width
    variants, arithmetic, assumed = _expert_formats(stored, activations, gpu)
    shape = columns(
        tokens=d["tokens"],
        hidden=d["hidden"],
        inter=d["inter"],
        active=d["active"],
        local=d["local"],
        matrices=d["matrices"],
        weight_width=width,
        width=2.0,
        highest=tallest(named(stored).bits, BITS[arithmetic]),
        rows=np.maximum(np.asarray(d["rows"]), NONE),
        touched=np.maximum(np.asarray(d["touched"]), NONE),
    )
    tiles = padding(shape["rows"], shape["touched"])
    own = variants[0]
    if float(np.mean(d["matrices"])) < GATED:
        plain = tuple(f"{variant}-nongated" for variant in variants)
        variants = (*plain, *variants)
    made = expert_dims(**shape, tiles=tiles)
    part = _part(op)
    special = (
        ("limited", np.full(shape["tokens"].shape, bool(d["limited"])), made),
        ("spread", shape["local"] < d["experts"], made),
        ("min-latency", shape["tokens"] <= FEW_TOKENS, made),
    )
    whole = Asked("moe", variants, made, arithmetic, assumed=assumed, part=part, special=special)
    if assumed or not np.all(np.asarray(d["apart"]) > 0):
        return whole
    few = bool(np.all(np.asarray(d["own"]) <= FEW_TOKENS))
    phase = "decode" if few else "prefill"
    if few:
        # A mask tells how many rows of each expert are tokens: nothing is sorted.
        made = expert_dims(**{**shape, "tokens": shape["rows"] / shape["active"]}, tiles=tiles)
    wide = Asked("moe-wideep", (f"{own}-{phase}", own), made, arithmetic, part=part)
    return replace(wide, own=True, otherwise=whole)


def _expert_formats(stored: str, activations: float, gpu: Gpu) -> tuple[tuple[str, ...], str, str]:
    """Variants that would do, the rate they are given, and why none is quite it."""
    if stored in SIXTEEN:
        return ("bfloat16",), "bf16", ""
    low, begin = ("fp8", "fp8_block"), stored.split("-")[0]
    if activations < 2.0 and begin in NARROW_EXPERTS:
        variant, arithmetic = NARROW_EXPERTS[begin]
        if arithmetic in gpu.flops_per_s:
            return (variant, *low), arithmetic, ""
    if activations < 1.0 and "fp4" in gpu.flops_per_s:
        return low, "fp4", _unlike(stored)
    if activations < 2.0 and "fp8" in gpu.flops_per_s:
        if stored == "fp8-block":
            return low[::-1], "fp8", ""
        return low, "fp8", _unlike(stored) * (named(stored).bits < 8)
    if activations < 2.0 and "int8" in gpu.flops_per_s:
        return low, "int8", _unlike(stored)
    if named(stored).bits >= 8:
        return ("bfloat16",), "bf16", _unlike(stored)
    own = WIDENED_EXPERTS.get(begin, "w4a16_mxfp4")
    unlike = "" if begin in WIDENED_EXPERTS else _unlike(stored)
    return tuple(dict.fromkeys((own, "w4a16_mxfp4", "bfloat16"))), "bf16", unlike


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
    "scan": _scan,
    "moe": _experts,
}
