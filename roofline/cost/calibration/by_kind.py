"""Measured kernels that operators ask for, by kind of operator."""

from collections.abc import Callable, Mapping
from typing import Final

from roofline.cost.calibration import sparse
from roofline.cost.calibration.attention import (
    decode_attention,
    latent_attention,
    prefill_attention,
)
from roofline.cost.calibration.experts import experts
from roofline.cost.calibration.linear import linear
from roofline.cost.calibration.pointwise import pointwise
from roofline.cost.calibration.query import KernelQuery
from roofline.cost.calibration.recurrent import scan
from roofline.cost.work import Op
from roofline.hardware.machine import Gpu


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
