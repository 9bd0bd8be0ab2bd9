"""Names of operators: which of them share a kernel, and what kernel a name begins with."""

from typing import Final

from roofline.cost.work import Op
from roofline.model.architecture import STREAMS

CONVERSION: Final = "quantise-"
CONVERSION_OF_EXPERTS: Final = "quantise-experts"
"""Beginnings of the names of conversions of inputs, and of those of experts' inputs."""
OPERATIONS: Final = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "gather-context": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "send": "send_recv",
    "dispatch-all-gather": "all_gather",
    "combine-reduce-scatter": "reduce_scatter",
}
"""Collective by how the operator's name begins."""
RESIDUAL: Final = ("norm", "embedding-norm", "final-norm")
"""Norms that add the residual first: each element is read and written twice."""


def base_name(op: Op) -> str:
    """Name of an operator without the number that tells it from others of that name."""
    return op.name.rsplit("-", 1)[0] if op.name[-1:].isdigit() else op.name


def alike(op: Op) -> str:
    """Part of an operator's name that its kernel depends on: others of its kind share a price."""
    if op.kind == "collective":
        return next((begin for begin in OPERATIONS if op.name.startswith(begin)), op.name)
    if op.kind == "gemm":
        own = op.name.startswith(("q-absorb", "v-absorb")) or base_name(op) == STREAMS
        return base_name(op) if own else op.kind
    if op.name.startswith(CONVERSION):
        return CONVERSION_OF_EXPERTS if op.name.startswith(CONVERSION_OF_EXPERTS) else CONVERSION
    return RESIDUAL[0] if op.kind == "pointwise" and base_name(op) in RESIDUAL else op.name
