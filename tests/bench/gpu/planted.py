"""Kernel times from what a driver sees of them: forms with planted constants."""

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np

from roofline.bench.published import of_gpu
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.decode import decode_dims
from roofline.cost.kernels.prefill import prefill_dims
from roofline.hardware.catalog import gpu
from tests.bench.gpu.fake_gpu import Kernel

H100: Final = of_gpu(gpu("h100-sxm"), "h100-sxm", "nvlink")
PRODUCT: Final = {
    "start": 3.5e-6,
    "compute": 0.75,
    "memory": 0.9,
    "cache": 0.45,
    "knee": 2.5,
    "depth": 3e-10,
}
PASS: Final = {"start": 1.6e-6, "lane": 3e-11, "row": 2e-8, "cache": 0.4, "memory": 0.85}
NCCL: Final = {
    **{f"start_{i}": value for i, value in enumerate((7e-6, 1.6e-5, 4e-5, 3e-5))},
    **{f"message_{i}": value for i, value in enumerate((7e-7, 8e-7, 9e-7, 6e-7))},
    **{f"efficiency_{i}": value for i, value in enumerate((0.2, 0.5, 0.8, 0.85))},
    "sharpness": 8.0,
}
PLANTED: Final[Mapping[str, Mapping[str, float]]] = {
    "product-2": PRODUCT,
    "gemm-fp8-block": PRODUCT | {"compute": 0.6, "quantise": 0.25},
    "gemm-fp8": PRODUCT | {"compute": 0.65, "quantise": 0.25},
    "product-int8": PRODUCT | {"compute": 0.55, "quantise": 0.3},
    "product-packed": PRODUCT | {"memory": 0.7, "compute": 0.6},
    "pass-4": PASS,
    "pass-6": PASS | {"row": 3e-8},
    "memory": {"start": 2.2e-6, "cache": 0.6, "memory": 0.93, "resident": 0.8},
    "decode-own": {
        "launch": 5e-6,
        "unit": 1.5e-6,
        "edge": 5e-7,
        "step": 3e-7,
        "far": 1.1,
        "tall": 0.5,
        "row": 1e-8,
        "compute": 0.5,
        "wide": 1.1,
        "masked": 1.5,
        "together": 1.3,
        "memory": 0.88,
        "l2": 0.5,
        "resident": 0.8,
        "evicted": 6.0,
        "light": 1.0,
        "walk": 3e-7,
        "reduce": 3e-7,
        "merge": 2e-7,
        "combine": 1.2e-6,
        "copy": 5e-6,
        "sharpness": 5.0,
    },
    "prefill-own": {
        "launch": 4e-6,
        "combine": 1e-6,
        "again": 1.5,
        "hidden": 0.5,
        "block": 1.5e-6,
        "edge": 8e-7,
        "compute": 0.55,
        "softmax": 40.0,
        "tall": 0.8,
        "wide": 1.1,
        "masked": 1.5,
        "memory": 0.7,
        "cache": 0.7,
        "token": 1e-8,
        "head": 1e-9,
        "l2": 0.4,
        "resident": 0.8,
        "sharpness": 5.0,
    },
    "collective-all-reduce": NCCL,
    "collective-all-gather": {k: v for k, v in NCCL.items() if not k.endswith("_3")},
    "collective-reduce-scatter": {k: v for k, v in NCCL.items() if not k.endswith("_3")},
    "collective-all-to-all": {k: v for k, v in NCCL.items() if not k.endswith("_3")},
    "collective-send-recv": {k: v for k, v in NCCL.items() if not k.endswith("_3")},
}
NOTHING: Final = 1.2e-6
"""A kernel without instructions inside a graph. [s]"""
HOST_BYTES_PER_S: Final = 5e10
LINK: Final = {1: 4e-6, 2: 6e-6}
"""Start of a copy to the device, and to the host. [s]"""
CONVERSION: Final = 1e-7
"""The part of a product in 8 bits that converts its input; the rest of it is the product's. [s]"""


@cache
def _time(form: str, arithmetic: str, **dims: float) -> float:
    columns = {name: np.array([float(value)]) for name, value in dims.items()}
    machine = H100.of(arithmetic)
    return float(FORMS[form].seconds(columns, machine, PLANTED[form])[0])


@cache
def _attention(form: str, build: Callable[..., Any], *dims: float, **how: str) -> float:
    columns = build(
        *(np.array([float(value)]) for value in (*dims[:6], 0.0, 2.0, *dims[6:])), **how
    )
    machine = H100.of("bf16")
    return float(FORMS[form].seconds(columns, machine, PLANTED[form])[0])


def _decode(call: Kernel) -> float:
    """Contexts are read where their address points."""
    contexts, (new, heads, kv_heads) = call.arguments[4], call.arguments[8:11]
    context = ctypes.c_int32.from_address(int(contexts)).value
    shape = (call.grid[2], new, context, heads, kv_heads, call.constants["HEAD_DIM"])
    cached = 2.0 - call.constants.get("CACHE_FP8", 0)
    return _attention("decode-own", decode_dims, *shape, cached, kernel="roofline")


def _prefill(call: Kernel) -> float:
    new, context, heads, kv_heads, causal = call.arguments[4:9]
    assert causal == 1
    shape = (call.grid[2], new, context, heads, kv_heads, call.constants["HEAD_DIM"])
    return _attention("prefill-own", prefill_dims, *shape, 2.0)


def _pass(form: str, width: Callable[[Kernel], float]) -> Callable[[Kernel], float]:
    return lambda call: _time(form, "bf16", m=call.grid[0], width=width(call))


def _stream(arrays: int, chunks: int) -> Callable[[Kernel], float]:
    """Cold where other addresses were worked on just before."""

    def seconds(call: Kernel) -> float:
        moved = 16.0 * arrays * float(call.arguments[chunks])
        return _time("memory", "bf16", bytes=moved, cold=float(not call.again))

    return seconds


def _wires(form: str) -> Callable[[Kernel], float]:
    def seconds(call: Kernel) -> float:
        ranks, payload = (float(value) for value in call.arguments)
        rate, adds = H100.link_bytes_per_s, float(H100.in_switch)
        columns = {"payload": payload, "ranks": ranks, "bytes_per_s": rate, "in_switch": adds}
        return _time(form, "bf16", **columns)

    return seconds


def _packed(call: Kernel) -> float:
    m, n, k = call.arguments[5:8]
    return _time("product-packed", "bf16", m=m, n=n, k=k)


def _matmul(call: Kernel) -> float:
    arithmetic = call.name.split()[1]
    rate = arithmetic.removesuffix("_block")
    _, m, n, k = (float(value) for value in call.arguments)
    forms = {"fp8": "gemm-fp8", "fp8_block": "gemm-fp8-block", "int8": "product-int8"}
    seconds = _time(forms.get(arithmetic, "product-2"), rate, m=m, n=n, k=k)
    return seconds - CONVERSION if arithmetic in forms else seconds


TIMES: Final[Mapping[str, Callable[[Kernel], float]]] = {
    "nothing": lambda call: NOTHING,
    "read_stream": _stream(1, 2),
    "copy_stream": _stream(2, 2),
    "add_rows": _pass("pass-6", lambda call: call.arguments[3]),
    "take_rows": _pass("pass-4", lambda call: call.arguments[3]),
    "quantise": lambda call: CONVERSION,
    "quantise_blocks": lambda call: CONVERSION,
    "rms_norm": _pass("pass-4", lambda call: call.arguments[3]),
    "rope": _pass("pass-4", lambda call: call.arguments[3] * call.constants["HEAD_DIM"]),
    "silu_mul": _pass("pass-6", lambda call: call.arguments[2]),
    "decode_attention": _decode,
    "combine_splits": lambda call: 0.0,
    "prefill_attention": _prefill,
    "prefill_warpgroup": _prefill,
    "w4a16_gemm": _packed,
    "memcpy": lambda call: LINK[int(call.arguments[1])] + call.arguments[0] / HOST_BYTES_PER_S,
    "allReduce": _wires("collective-all-reduce"),
    "allGather": _wires("collective-all-gather"),
    "reduceScatter": _wires("collective-reduce-scatter"),
    "allToAll": _wires("collective-all-to-all"),
    "sendRecv": _wires("collective-send-recv"),
}


def seconds(call: Kernel) -> float:
    """Time of a call. [s]"""
    return _matmul(call) if call.name.startswith("matmul") else TIMES[call.name](call)
