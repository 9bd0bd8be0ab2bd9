"""Measured kernels of recurrent layers: the short convolution and the state."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.calibration.query import KernelQuery, columns
from roofline.cost.calibration.rows import VERIFIED_TOKENS
from roofline.cost.kernels import recurrent
from roofline.cost.work import Op
from roofline.hardware.machine import Gpu

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
