"""Measured kernels that pass over activations: norms, rotations, additions, activations."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.calibration.alike import RESIDUAL, base_name
from roofline.cost.calibration.query import KernelQuery, columns
from roofline.cost.calibration.recurrent import convolution
from roofline.cost.work import Op
from roofline.hardware.machine import Gpu

PASSES: Final[Mapping[str, tuple[str, float]]] = {
    "rotary": ("attn_rope", 4.0),
    "kv-store": ("attn_rope", 4.0),
    "activation": ("mlp_act", 6.0),
    "shared-activation": ("mlp_act", 6.0),
    "embedding": ("emb", 4.0),
}
"""Measured pass that an operator is like, and its bytes per element of the measured width."""
NORM: Final = ("input_layernorm", 4.0)
ADD: Final = ("add", 6.0)


def pointwise(op: Op, gpu: Gpu) -> KernelQuery | None:
    """One pass over activations, of the measured pass that it is most like."""
    d = op.dims
    if "m" not in d:
        return None
    if "taps" in d:
        return convolution(op)
    base = base_name(op)
    if "streams" in d and base in RESIDUAL:
        return _streams(op)
    moved = (d["reads"] + d["writes"]) * 2.0
    if base in RESIDUAL:
        # With the residual: the traffic of an addition, and at least the norm of what it adds.
        (norm, _), (add, traffic) = NORM, ADD
        alone = KernelQuery(
            "pointwise", (norm,), columns(m=d["m"], width=d["writes"] / 2.0), "fp16"
        )
        dims = columns(m=d["m"], width=moved / traffic)
        return KernelQuery("pointwise", (add,), dims, "fp16", beside=alone)
    like, traffic = NORM if base.endswith("norm") else PASSES.get(base, ADD)
    return KernelQuery("pointwise", (like,), columns(m=d["m"], width=moved / traffic), "fp16")


def _streams(op: Op) -> KernelQuery:
    """Residual streams mixed after one part, then the norm of what they are joined to."""
    d = op.dims
    hidden = d["writes"] / (1.0 + d["streams"])
    shape = columns(tokens=d["m"], hidden=hidden, streams=d["streams"], sites=1.0)
    norm = KernelQuery("pointwise", (NORM[0],), columns(m=d["m"], width=hidden), "fp16")
    return KernelQuery("hyper-connections", ("post",), shape, then=norm)
