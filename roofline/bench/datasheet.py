"""The roofline at published rates, without a constant that was fitted: what fits are compared with.

Arithmetic over the dense rate, or traffic over the memory's, whichever takes longer; for exchanges
and collectives, bytes over the link. Work is that of `roofline.cost`: every operand crosses memory
once, nothing waits for anything.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any, Final, TypeAlias

import numpy as np

from roofline.bench.kernel_rows import RowGroup
from roofline.cost.attention import attention
from roofline.cost.kernels import sparse
from roofline.cost.kernels.collective import PATHS, moved, usable
from roofline.cost.kernels.form import Machine
from roofline.cost.kernels.gemm import OUTPUT_WIDTH, PRODUCTS
from roofline.cost.kernels.latent_module import LATENT, PLAIN, ROTATED, projections
from roofline.cost.kernels.recurrent import STATE
from roofline.cost.latent import absorbed_attention, expanded_attention
from roofline.cost.moe import experts_gemm
from roofline.cost.recurrent import chunked_scan, recurrent_steps
from roofline.cost.work import Array, Work, gemm, pointwise

Columns: TypeAlias = Mapping[str, Any]
CROSSED: Final[Mapping[str, float]] = {"add": 3.0, "mlp_act": 3.0, "computescale": 1.0}
"""Elements of 16 bits that a pass moves per element of its width, where not 2."""
QUANTISED: Final = 1.5
"""Elements of 16 bits that quantising moves per element: each is read, and half as wide written."""


def datasheet(group: RowGroup) -> Array:
    """Time of each row of a group by the plain roofline. [s]"""
    kind = group.form.kind
    if kind in WIRED:
        return WIRED[kind](group)
    return _roofline(WORKS[kind](group.dims, group.name), group.machine)


def _roofline(work: Work, machine: Machine) -> Array:
    """Time of arithmetic or of traffic, whichever takes longer. [s]"""
    longer = np.maximum(work.flops / machine.flops_per_s, work.hbm_bytes / machine.hbm_bytes_per_s)
    return np.asarray(longer, dtype=np.float64)


def _linear(d: Columns, name: Mapping[str, str]) -> Work:
    width, stored = PRODUCTS[name["dtype"]].width, PRODUCTS[name["dtype"]].stored
    work = gemm(d["m"], d["n"], d["k"], weight_width=stored, width=width)
    # Y has 16 bits whatever the multiplier takes.
    return work + Work(activation_bytes=d["m"] * d["n"] * (OUTPUT_WIDTH - width))


def _stream(d: Columns, name: Mapping[str, str]) -> Work:
    each = QUANTISED if name["op"] == "scale_matrix" else CROSSED.get(name["op"], 2.0)
    return pointwise(d["m"], reads=each * d["width"], writes=0.0, width=2.0)


def _named(d: Columns, *names: str) -> dict[str, Any]:
    return {name: d[name] for name in names}


def _attention(d: Columns, name: Mapping[str, str]) -> Work:
    shape = _named(d, "heads", "kv_heads", "head_dim", "width", "kv_width")
    return attention(d["batch"], d["new"], d["context"], **shape, window=d["reach"])


def _absorbed(d: Columns, name: Mapping[str, str]) -> Work:
    shape = _named(d, "heads", "width", "kv_width") | {"latent": LATENT, "rope": ROTATED}
    return absorbed_attention(d["batch"], d["new"], d["context"], **shape)


def _expanded(d: Columns, name: Mapping[str, str]) -> Work:
    dims = {"query_dim": PLAIN + ROTATED, "value_dim": PLAIN, "rope": ROTATED}
    shape = _named(d, "heads", "width") | dims
    return expanded_attention(d["batch"], d["new"], d["context"], **shape)


def _projected(d: Columns, *, absorbed: bool) -> Work:
    """Matrices around the attention, at the attention's rate of arithmetic."""
    tokens = d["batch"] * d["new"]
    each = [
        gemm(tokens, n, k, weight_width=d["weight_width"], width=d["width"])
        for n, k in projections(d["heads"], absorbed=absorbed)
    ]
    total = reduce(add, each)
    return Work(
        flops=total.flops / d["faster"],
        weight_bytes=total.weight_bytes,
        activation_bytes=total.activation_bytes,
    )


def _heads(d: Columns, name: Mapping[str, str]) -> Work:
    tokens, heads, inner = d["tokens"], d["heads"], d["inner"]
    outer = PLAIN + LATENT - inner
    return Work(
        flops=2.0 * tokens * heads * PLAIN * LATENT,
        weight_bytes=heads * PLAIN * LATENT * d["weight_width"],
        activation_bytes=tokens * heads * (inner * d["weight_width"] + 2.0 * outer),
    )


def _experts(d: Columns, name: Mapping[str, str]) -> Work:
    wide = (d["matrices"] - 1.0) * d["inter"]
    widths = {"weight_width": d["weight_width"], "width": d["width"]}
    first = experts_gemm(d["rows"], d["touched"], wide, d["hidden"], **widths)
    return first + experts_gemm(d["rows"], d["touched"], d["hidden"], d["inter"], **widths)


def _convolution(d: Columns, name: Mapping[str, str]) -> Work:
    kept = 2.0 * d["batch"] * (d["taps"] - 1.0) * d["channels"]
    moved = 2.0 * d["batch"] * d["new"] * d["channels"]
    return pointwise(moved + kept, reads=1.0, writes=0.0, width=2.0)


def _state(d: Columns) -> dict[str, Any]:
    shape = _named(d, "heads", "key_dim", "value_dim", "key_heads")
    return shape | {"width": 2.0, "state_width": STATE}


def _scan(d: Columns, name: Mapping[str, str]) -> Work:
    rule = "decay" if name["op"] == "mamba2" else "delta"
    chunk = float(d["chunk"][0])
    return chunked_scan(d["batch"], d["new"], rule=rule, chunk=chunk, **_state(d))


def _steps(d: Columns, name: Mapping[str, str]) -> Work:
    rule = "decay" if name["op"] == "mamba2" else "delta"
    work = recurrent_steps(d["batch"], d["new"], rule=rule, **_state(d))
    return Work(activation_bytes=work.activation_bytes, kv_bytes=work.kv_bytes)


def _encoder(d: Columns, name: Mapping[str, str]) -> Work:
    shape = _named(d, "heads", "head_dim") | {"kv_heads": d["heads"], "width": 2.0, "kv_width": 2.0}
    return attention(d["batch"], d["seq"], d["seq"], **shape, mask="square")


def _hyper(d: Columns, name: Mapping[str, str]) -> Work:
    tokens = d["sites"] * d["tokens"]
    each = (2.0 * d["streams"] + 1.0) * d["hidden"]
    return pointwise(tokens, reads=each, writes=0.0, width=2.0)


def _mlp(d: Columns, name: Mapping[str, str]) -> Work:
    widths = {"weight_width": d["weight_width"], "width": 2.0}
    first = gemm(d["tokens"], 2.0 * d["inter"], d["hidden"], **widths)
    return first + gemm(d["tokens"], d["hidden"], d["inter"], **widths)


def _sparse(d: Columns, name: Mapping[str, str]) -> Work:
    """Projections, scores and attention, each as far as the row has it, at the machine's rate."""
    tokens = d["batch"] * d["new"]
    shapes = [(d[f"n{i}"], d[f"k{i}"]) for i in range(sparse.MOST)]
    weights = sum(n * k for n, k in shapes)
    scores = 2.0 * tokens * d["scored"] * d["index_macs"]
    attended = 2.0 * tokens * d["heads"] * d["met"] * d["pair_macs"] * d["attends"]
    return Work(
        flops=2.0 * tokens * weights / d["faster"] + scores / d["index_faster"] + attended,
        weight_bytes=weights * d["weight_width"],
        activation_bytes=tokens * d["heads"] * d["ends"] * d["width"],
        kv_bytes=d["batch"] * (d["unique"] * d["key_bytes"] + d["entries"] * d["entry_bytes"]),
    )


WORKS: Final[Mapping[str, Callable[[Columns, Mapping[str, str]], Work]]] = {
    "gemm": _linear,
    "quantize": _stream,
    "pointwise": _stream,
    "prefill-attention": _attention,
    "decode-attention": _attention,
    "latent-decode": _absorbed,
    "latent-prefill": _expanded,
    "latent-module-decode": lambda d, name: _absorbed(d, name) + _projected(d, absorbed=True),
    "latent-module-prefill": lambda d, name: _expanded(d, name) + _projected(d, absorbed=False),
    "latent-heads": _heads,
    **dict.fromkeys(sparse.KINDS, _sparse),
    "moe": _experts,
    "convolution": _convolution,
    "convolution-step": _convolution,
    "scan": _scan,
    "recurrent-step": _steps,
    "encoder-attention": _encoder,
    "hyper-before": _hyper,
    "hyper-after": _hyper,
    "gated-mlp": _mlp,
}
"""Work of a row by the kind of its form."""


def _collective(group: RowGroup) -> Array:
    """Bytes of the algorithm that sends least; a switch that adds has nothing to save for two."""
    d, op = group.dims, group.name["op"]
    shares = [
        np.where(
            usable(path, d["ranks"], d["in_switch"] > 0), moved(op, path, d["ranks"])[1], np.inf
        )
        for path in PATHS[op]
    ]
    least: Array = np.min(shares, axis=0)
    return least * d["payload"] / d["bytes_per_s"]


def _exchange(group: RowGroup) -> Array:
    d = group.dims
    sent: Array = d["tokens"] * d["copies"] * d["hidden"] * d["width"]
    return sent / d["bytes_per_s"]


def _fused(group: RowGroup) -> Array:
    """Experts and their exchange, which one kernel overlaps."""
    d = group.dims
    alone = _roofline(_experts(d, group.name), group.machine)
    return np.maximum(alone, d["exchanged"] / d["bytes_per_s"])


WIRED: Final[Mapping[str, Callable[[RowGroup], Array]]] = {
    "collective": _collective,
    "expert-exchange": _exchange,
    "moe-alltoall": _exchange,
    "moe-mega": _fused,
}
"""Time of a row by the kind of its form, where a link bounds it. [s]"""
