"""Measured kernels that operators ask for, by kind of operator.

Those of linear layers, of matrices of each head of latent attention, of passes over activations and
of recurrent layers are here; attention and mixtures of experts have modules of their own.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from roofline.cost.calibration import sparse
from roofline.cost.calibration.attention import (
    LATENT,
    decode_attention,
    latent_attention,
    prefill_attention,
)
from roofline.cost.calibration.experts import experts
from roofline.cost.calibration.query import (
    SIXTEEN,
    KernelQuery,
    columns,
    unmeasured,
)
from roofline.cost.calibration.rows import VERIFIED_TOKENS
from roofline.cost.kernels import gemm, recurrent
from roofline.cost.kernels.form import Dims
from roofline.cost.kernels.latent_module import PLAIN
from roofline.cost.work import (
    ACTIVATION,
    INTO_LATENT,
    LOOKUP,
    NORM,
    OUT_OF_LATENT,
    RESIDUAL_NORM,
    ROTARY,
    STORE,
    Op,
)
from roofline.hardware.machine import Gpu
from roofline.model.architecture import STREAMS
from roofline.model.precision import named
from roofline.model.precision.blocks import INPUTS

WEIGHT_ONLY: Final[Mapping[float, str]] = {8.0: "int8_wo", 4.0: "int4_wo"}
"""Measured products of 16-bit activations with integer weights, by their bits without scales."""


def linear(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Linear layers: as measured in their number format; others take the form of the nearest."""
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
    """Coefficients of hyper-connections, and the streams joined to the input of one part.

    From n streams of a width D, n·D wide, (2 + n)·n coefficients are made.
    """
    streams = np.sqrt(1.0 + dims["n"]) - 1.0
    shape = columns(tokens=dims["m"], hidden=dims["k"] / streams, streams=streams, sites=1.0)
    return KernelQuery("hyper-connections", ("pre",), shape)


def _heads(op: Op, dims: Dims, stored: str) -> KernelQuery:
    """A matrix for each head, into the latent or out of it."""
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
    """One pass over activations, of the measured pass that it is most like."""
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
    """Residual streams mixed after one part, then the norm of what they are joined to."""
    d = op.dims
    hidden = d["writes"] / (1.0 + d["streams"])
    shape = columns(tokens=d["m"], hidden=hidden, streams=d["streams"], sites=1.0)
    norm = KernelQuery("pointwise", (PASSES[NORM][0],), columns(m=d["m"], width=hidden), "fp16")
    return KernelQuery("hyper-connections", ("post",), shape, then=norm)


LAYERS: Final[Mapping[str, str]] = {
    "gated-delta": "gdn",
    "kimi-delta": "kda",
    "mamba2": "mamba2",
}
"""Recurrent layers whose kernels were measured, as sources call them."""
VERIFIED: Final = "a few tokens at once were not measured: steps, one after the other"


def convolution(op: Op) -> KernelQuery | None:
    """Short convolution before a state: over a prompt, or with the last inputs of each sequence."""
    d, layer = op.dims, LAYERS.get(op.formats["layer"])
    if layer is None:
        return None
    shape = columns(batch=d["count"], new=d["new"], channels=d["channels"], taps=d["taps"])
    phase = _phase(op)
    variants = _of_layer(layer, phase, "convolution")
    return KernelQuery("linear-attention", variants, shape, cold=phase != "prefill")


def scan(op: Op, gpu: Gpu) -> KernelQuery | None:
    """State of a recurrent layer: chunk after chunk, or token after token.

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
    """Variants that would do: without a kernel for verification, the one for a token."""
    phases = ("verify", "decode") if phase == "verify" else (phase,)
    found = [f"{layer}-{each}-{step}" for each in phases]
    if phase != "prefill":
        found += [f"{layer}-decode-{step}-unpacked"]
    return tuple(found)


def kernel_query(op: Op, gpu: Gpu) -> KernelQuery | None:
    """Kernel that an operator asks for; None where none like it was measured."""
    make = _MAKERS.get("moe" if "tokens" in op.dims else op.kind)
    found = None if make is None else make(op, gpu)
    return _sparse(op, gpu, found) if sparse.is_sparse(op) else found


def _sparse(op: Op, gpu: Gpu, otherwise: KernelQuery | None) -> KernelQuery | None:
    """A part of a module of sparse attention; what is like it otherwise where none was measured."""
    if "square" in op.dims or "naive" in op.dims:
        return otherwise
    return KernelQuery(
        sparse.KIND,
        sparse.variants(op),
        sparse.columns(op, gpu),
        assumed=sparse.unlike(op),
        otherwise=otherwise,
    )


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
