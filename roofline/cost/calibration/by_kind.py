"""Measured kernels that operators ask for, by kind of operator.

Attention has a module of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration.attention import (
    LATENT,
    decode_attention,
    is_sparse,
    latent_attention,
    prefill_attention,
    sparse_attention,
)
from roofline.cost.calibration.kernel import SIXTEEN, KernelQuery, columns, unmeasured
from roofline.cost.kernels import gemm, recurrent
from roofline.cost.kernels.exchange import FEW_TOKENS
from roofline.cost.kernels.experts import GATED, expert_dims, tallest
from roofline.cost.kernels.form import Dims
from roofline.cost.kernels.latent_module import PLAIN
from roofline.cost.kernels.routing import padding
from roofline.cost.work import (
    ACTIVATION,
    INTO_LATENT,
    LOOKUP,
    NORM,
    OUT_OF_LATENT,
    RESIDUAL_NORM,
    ROTARY,
    STORE,
    Number,
    Op,
    distinct,
)
from roofline.hardware.machine import Gpu
from roofline.model.architecture import STREAMS
from roofline.model.precision import named
from roofline.model.precision.formats import INPUTS

Answers: TypeAlias = tuple[NDArray[np.bool_], ...]
VERIFIED_TOKENS: Final = 8.0
"""New tokens of a sequence up to which a recurrent layer steps, as it does to verify drafts; more
are a prompt, computed in chunks. The most that were measured so."""
NO_ROWS: Final = 1e-12
"""Rows in place of none, which keep ratios finite; the time of experts without rows is not used."""
NARROW_EXPERTS: Final[Mapping[str, tuple[str, str]]] = {
    "nvfp4": ("nvfp4", "fp4"),
    "mxfp4": ("w4a8_mxfp4_mxfp8", "fp8"),
    "int4": ("w4afp8", "fp8"),
}
"""Measured mixtures of experts of 4-bit weights and narrow activations, and their arithmetic, by
how the format of the weights begins; engines multiply MXFP4 by MXFP8."""
WIDENED_EXPERTS: Final[Mapping[str, str]] = {"mxfp4": "w4a16_mxfp4", "int4": "int4_wo"}
"""Measured mixtures of experts whose kernels widen the weights to 16 bits, by how the format of the
weights begins."""
WIDE_INPUTS: Final = "-w4a16"
"""End of the names of 4-bit formats whose activations stay in 16 bits on any device."""
MARLIN: Final = "int4_wo"
"""Measured mixture by Marlin, the kernel of vLLM and SGLang for all `WIDE_INPUTS`: it reaches 230
to 250 TFLOP/s on an H200, where Triton's kernel for MXFP4, made for Hopper, reaches 380 to 550."""
BITS: Final[Mapping[str, float]] = {"bf16": 16.0, "fp16": 16.0, "fp8": 8.0, "int8": 8.0, "fp4": 4.0}
"""Bits of an activation by arithmetic."""


def experts(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Kernel of a part of a mixture of experts: another one where tokens come from other devices.

    Some engines have kernels of their own for some cases: SGLang for a gate that is limited to
    groups, vLLM for spread experts, TensorRT-LLM for few tokens.
    """
    d = op.dims
    stored = op.formats["weights"]
    width, activations = named(stored).width, named(op.formats["activations"]).width
    variants, arithmetic, assumed = _expert_formats(stored, activations, gpu)
    shape = columns(
        **{name: d[name] for name in ("tokens", "hidden", "inter", "active", "local", "matrices")},
        weight_width=width,
        width=2.0,
        highest=tallest(named(stored).bits, BITS[arithmetic]),
        rows=np.maximum(np.asarray(d["rows"]), NO_ROWS),
        touched=np.maximum(np.asarray(d["touched"]), NO_ROWS),
    )
    tiles = padding(shape["rows"], shape["touched"])
    own = variants[0]
    if float(np.mean(d["matrices"])) < GATED:
        plain = tuple(f"{variant}-nongated" for variant in variants)
        variants = (*plain, *variants)
    made = expert_dims(shape, tiles)
    part = op.kernel or "none"
    special = (
        ("limited", np.full(shape["tokens"].shape, bool(d["limited"])), made),
        ("spread", shape["local"] < d["experts"], made),
        ("min-latency", shape["tokens"] <= FEW_TOKENS, made),
    )
    whole = KernelQuery(
        "moe", variants, made, arithmetic, assumed=assumed, part=part, special=special
    )
    if stored.endswith(WIDE_INPUTS):
        whole = whole._replace(variants=(MARLIN,), own=True, otherwise=whole)
    if assumed or not np.all(np.asarray(d["apart"]) > 0):
        return whole
    few = bool(np.all(np.asarray(d["own"]) <= FEW_TOKENS))
    phase = "decode" if few else "prefill"
    if few:
        # A mask tells how many rows of each expert are tokens: nothing is sorted.
        made = expert_dims({**shape, "tokens": shape["rows"] / shape["active"]}, tiles)
    wide = KernelQuery("moe-wideep", (f"{own}-{phase}", own), made, arithmetic, part=part)
    return wide._replace(own=True, otherwise=whole)


def _expert_formats(stored: str, activations: float, gpu: Gpu) -> tuple[tuple[str, ...], str, str]:
    """Variants, the best first; arithmetic whose rate they take; why none is quite it, if so."""
    if stored in SIXTEEN:
        return ("bfloat16",), "bf16", ""
    low, begin = ("fp8", "fp8_block"), stored.split("-")[0]
    if activations < 2.0 and begin in NARROW_EXPERTS:
        variant, arithmetic = NARROW_EXPERTS[begin]
        if arithmetic in gpu.flops_per_s:
            return (variant, *low), arithmetic, ""
    if activations < 1.0 and "fp4" in gpu.flops_per_s:
        return low, "fp4", unmeasured(stored)
    if activations < 2.0 and "fp8" in gpu.flops_per_s:
        if stored == "fp8-block":
            return low[::-1], "fp8", ""
        return low, "fp8", unmeasured(stored) * (named(stored).bits < 8)
    if activations < 2.0 and "int8" in gpu.flops_per_s:
        return low, "int8", unmeasured(stored)
    if named(stored).bits >= 8:
        return ("bfloat16",), "bf16", unmeasured(stored)
    own = WIDENED_EXPERTS.get(begin, "w4a16_mxfp4")
    unlike = "" if begin in WIDENED_EXPERTS else unmeasured(stored)
    return tuple(dict.fromkeys((own, "w4a16_mxfp4", "bfloat16"))), "bf16", unlike


WEIGHT_ONLY: Final[Mapping[float, str]] = {8.0: "int8_wo", 4.0: "int4_wo"}
"""Measured products of 16-bit activations with integer weights, by their bits without scales."""


def linear(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Kernel of a linear layer, measured in its number format; else the form of the nearest."""
    dims = columns(m=op.dims["m"], n=op.dims["n"], k=op.dims["k"])
    stored = op.formats.get("weights", "bf16")
    if op.kernel in (INTO_LATENT, OUT_OF_LATENT):
        return _heads(op, dims, stored)
    width = named(stored).width
    if op.kernel == STREAMS:
        return _mixed(dims)
    if op.arithmetic in SIXTEEN:
        if stored in SIXTEEN:
            return KernelQuery("gemm", ("bfloat16",), dims, op.arithmetic)
        own = WEIGHT_ONLY.get(named(stored).bits // 4 * 4) if stored.startswith("int") else None
        form = gemm.linear(2.0, stored=width)
        if own is None:
            return KernelQuery("gemm", ("bfloat16",), dims, op.arithmetic, form, unmeasured(stored))
        return KernelQuery("gemm", (own, "bfloat16"), dims, op.arithmetic, form)
    if op.arithmetic == "fp8" and named(stored).bits >= 8:
        variants = ("fp8", "fp8_block")
        blocks = stored in ("fp8-block", "mxfp8")
        return KernelQuery("gemm", variants[::-1] if blocks else variants, dims, "fp8")
    if op.arithmetic in ("int8", "fp8", "fp4"):
        activations = named(op.formats.get("activations", "fp8")).width
        if op.formats.get("activations") == INPUTS:
            # Products with vectors take what reading weights takes, and inputs are another's.
            form = gemm.linear(activations, stored=width)
            return KernelQuery("gemm", ("bfloat16",), dims, "int8", form, unmeasured(stored))
        if op.arithmetic == "fp4" and stored == "nvfp4":
            return KernelQuery("gemm", ("nvfp4",), dims, "fp4")
        if op.arithmetic == "int8" and stored == "int8":
            return KernelQuery("gemm", ("sq",), dims, "int8")
        form = gemm.linear(activations, stored=width, quantised=True)
        near = ("nvfp4", "fp8") if op.arithmetic == "fp4" else ("fp8",)
        return KernelQuery("gemm", near, dims, op.arithmetic, form, unmeasured(stored))
    return None


def _mixed(dims: Dims) -> KernelQuery:
    """Kernel that makes the coefficients of hyper-connections, and joins streams before a part.

    From n streams of a width D, n·D wide, (2 + n)·n coefficients are made.
    """
    streams = np.sqrt(1.0 + dims["n"]) - 1.0
    shape = columns(tokens=dims["m"], hidden=dims["k"] / streams, streams=streams, sites=1.0)
    return KernelQuery("hyper-connections", ("pre",), shape)


def _heads(op: Op, dims: Dims, stored: str) -> KernelQuery:
    """Kernel of a product with one matrix for each head, into the latent or out of it."""
    into = op.kernel == INTO_LATENT
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
    unlike = "" if low or stored in SIXTEEN else unmeasured(stored)
    return KernelQuery("latent-heads", formats, shape, op.arithmetic, assumed=unlike)


PASSES: Final[Mapping[str, tuple[str, float]]] = {
    ROTARY: ("attn_rope", 4.0),
    STORE: ("attn_rope", 4.0),
    ACTIVATION: ("mlp_act", 6.0),
    LOOKUP: ("emb", 4.0),
    NORM: ("input_layernorm", 4.0),
}
"""Measured pass that a kernel is like, and its bytes per element of the measured width."""
ADD: Final = ("add", 6.0)


def pointwise(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Kernel of one pass over activations: the measured pass most like it."""
    d = op.dims
    if "m" not in d:
        return None
    if "taps" in d:
        return convolution(op)
    if "streams" in d:
        return _streams(op)
    moved = (d["reads"] + d["writes"]) * 2.0
    if op.kernel == RESIDUAL_NORM:
        # With the residual: the traffic of an addition, and at least the norm of what it adds.
        (norm, _), (add, traffic) = PASSES[NORM], ADD
        alone = KernelQuery(
            "pointwise", (norm,), columns(m=d["m"], width=d["writes"] / 2.0), "fp16"
        )
        dims = columns(m=d["m"], width=moved / traffic)
        return KernelQuery("pointwise", (add,), dims, "fp16", beside=alone)
    like, traffic = PASSES.get(op.kernel, ADD)
    return KernelQuery("pointwise", (like,), columns(m=d["m"], width=moved / traffic), "fp16")


def _streams(op: Op) -> KernelQuery:
    """Kernel that mixes residual streams after a part; then the norm of what they are joined to."""
    d = op.dims
    hidden = d["writes"] / (1.0 + d["streams"])
    shape = columns(tokens=d["m"], hidden=hidden, streams=d["streams"], sites=1.0)
    norm = KernelQuery("pointwise", (PASSES[NORM][0],), columns(m=d["m"], width=hidden), "fp16")
    return KernelQuery("hyper-connections", ("post",), shape, then=norm)


LAYERS: Final[Mapping[str, str]] = {"gated-delta": "gdn", "kimi-delta": "kda", "mamba2": "mamba2"}
"""Recurrent layers whose kernels were measured, as sources call them."""
VERIFIED: Final = "a few tokens at once were not measured: steps, one after the other"


def convolution(op: Op) -> KernelQuery | None:
    """Kernel of the short convolution before a state: over a prompt, or on kept inputs."""
    d, layer = op.dims, LAYERS.get(op.formats["layer"])
    if layer is None:
        return None
    shape = columns(batch=d["count"], new=d["new"], channels=d["channels"], taps=d["taps"])
    phase = _phase(op)
    variants = _of_layer(layer, phase, "convolution")
    return KernelQuery("linear-attention", variants, shape, cold=phase != "prefill")


def scan(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Kernel of the state of a recurrent layer: chunk after chunk, or token after token.

    The convolution is an operator of its own, and so is the gated norm: kernels that fuse them
    stand for no operator.
    """
    d, layer = op.dims, LAYERS.get(op.formats["layer"])
    if layer is None:
        return None
    widths = ("key_heads", "heads", "key_dim", "value_dim", "chunk")
    shape = columns(batch=d["count"], new=d["new"], **{name: d[name] for name in widths})
    phase = _phase(op)
    variants = _of_layer(layer, phase, "state")
    dims = recurrent.state_dims(*shape.values(), solved=layer != "mamba2")
    unlike = VERIFIED if phase == "verify" and layer != "kda" else ""
    return KernelQuery("linear-attention", variants, dims, assumed=unlike, cold=phase != "prefill")


def _phase(op: Op) -> str:
    """Phase whose kernels the sequences of an operator run; all of them are of one."""
    new = float(np.max(op.dims["new"]))
    return "decode" if new <= 1.0 else "verify" if new <= VERIFIED_TOKENS else "prefill"


def _of_layer(layer: str, phase: str, step: str) -> tuple[str, ...]:
    """Variants, the best first: a token's kernel stands in where verification has none."""
    phases = ("verify", "decode") if phase == "verify" else (phase,)
    found = [f"{layer}-{each}-{step}" for each in phases]
    if phase != "prefill":
        found += [f"{layer}-decode-{step}-unpacked"]
    return tuple(found)


def kernel_query(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Kernel that an operator asks for; None where none like it was measured."""
    make = _MAKERS.get("moe" if "tokens" in op.dims else op.kind)
    found = None if make is None else make(op, gpu)
    return sparse_attention(op, gpu, found) if is_sparse(op) else found


_MAKERS: Final[Mapping[str, Callable[[Op, Gpu], KernelQuery | None]]] = {
    "gemm": linear,
    "prefill-attention": prefill_attention,
    "decode-attention": decode_attention,
    "latent-attention": latent_attention,
    "pointwise": pointwise,
    "lookup": pointwise,
    "scan": scan,
    "moe": experts,
}


def sorted_out(op: Op) -> Iterator[tuple[NDArray[np.intp], Op]]:
    """Places of the rows of each sort, and the operator on them; nothing where all are of one.

    A time may not depend on what else is on the scenario axis. Whether a collective leaves its
    node, a window hides keys, a chunk continues a prompt, or devices share one decides which kernel
    runs, row by row: each sort of rows is priced by itself.

    Args:
        op: Of a step, over a scenario axis or of a single scenario.
    """
    conditions = _experts if "touched" in op.dims else _CONDITIONS.get(op.kind)
    if conditions is None:
        return
    answers = conditions(op.dims)
    many = np.broadcast_shapes(*(answer.shape for answer in answers))
    if not many:
        return
    codes = sum(
        np.broadcast_to(answer, many).astype(np.intp) << bit for bit, answer in enumerate(answers)
    )
    codes = np.asarray(codes)
    for code in found if len(found := distinct(codes)) > 1 else ():
        rows = np.flatnonzero(codes == code)
        yield rows, op.rows(rows)


def _collective(dims: Mapping[str, Number]) -> Answers:
    leaves, tokens = np.asarray(dims["nodes"]) > 1, np.asarray(dims.get("tokens", 0.0))
    return leaves, tokens <= FEW_TOKENS


def _prefill(dims: Mapping[str, Number]) -> Answers:
    window = np.asarray(dims.get("window", 0.0))
    hides = (window > 0) & (window < dims["context"])
    shared = np.asarray(dims.get("sharers", 1.0)) > 1
    return hides, np.asarray(dims["context"]) > np.asarray(dims["new"]), shared


def _latent(dims: Mapping[str, Number]) -> Answers:
    return (np.asarray(dims.get("window", 0.0)) > 0, np.asarray(dims["new"]) > 1.0)


def _recurrent(dims: Mapping[str, Number]) -> Answers:
    new = np.asarray(dims.get("new", 1.0))
    return new > 1.0, new > VERIFIED_TOKENS


def _experts(dims: Mapping[str, Number]) -> Answers:
    """Few tokens, together and of a device; experts that are spread; tokens that are sent."""
    return (
        np.asarray(dims["tokens"]) <= FEW_TOKENS,
        np.asarray(dims["own"]) <= FEW_TOKENS,
        np.asarray(dims["local"]) < dims["experts"],
        np.asarray(dims["apart"]) > 0,
    )


_CONDITIONS: Final[Mapping[str, Callable[[Mapping[str, Number]], Answers]]] = {
    "collective": _collective,
    "prefill-attention": _prefill,
    "latent-attention": _latent,
    "pointwise": _recurrent,
    "scan": _recurrent,
    "index": _latent,
}
"""Conditions that decide about the kernel of a row, by kind of operator."""
