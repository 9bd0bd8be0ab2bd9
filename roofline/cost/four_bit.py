"""Rows up to which bitsandbytes multiplies 4-bit weights without a 16-bit copy of them."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Final

import numpy as np

from roofline.cost.work import Number
from roofline.hardware.machine import Gpu
from roofline.units import parse

LARGE_SHARED: Final = parse("128 KiB", "B")
"""On-chip memory of a multiprocessor above which a generation's parts are those with HBM. [B]"""
SMALL: Final = 4 * 2**20
"""Weights of a matrix below which other limits hold. [1]"""
TILE: Final = 64
"""Outputs of a block of the kernel. [1]"""
ALWAYS: Final = 4.0
"""Rows that are multiplied so on every device. [1]"""
MOSTLY, TALL = 7.0, 5.0
"""The same where copies take long, and of many inputs for few outputs on parts with HBM. [1]"""


def fused_rows(gpu: Gpu, n: Number, k: Number) -> Number:
    """Rows up to which the fused kernel runs; beyond, weights are copied to 16 bits first. [1]

    The limits follow the blocks of 64 outputs over the multiprocessors, w, and differ by
    generation. Exceptions of single shapes are left out, and so is what lies above these limits
    for layers below 4 Mi weights. One row on devices that the library has no such kernel for.

    Source: ``_gemm_4bit_use_custom_cuda`` and ``_gemm_4bit_use_custom_rocm`` of bitsandbytes 0.50.2
    (``bitsandbytes/backends/cuda/ops.py``); kernels: pull request 1949 of that project.

    Args:
        gpu: Device.
        n, k: Output and input width of the matrix. [1]

    Examples:
        Three waves of blocks and more on an H100, and half a wave:

        >>> from roofline.hardware.catalog import gpu
        >>> [float(fused_rows(gpu("h100-sxm"), n, 4096)) for n in (28672, 4096)]
        [64.0, 7.0]
    """
    rule = _RULES.get(_kind(gpu), 1.0)
    if isinstance(rule, float):
        return rule

    def most(n: float, k: float) -> float:
        blocks = ceil(n / TILE)
        waves = blocks / gpu.multiprocessors
        if n * k >= SMALL or rule is _blackwell_hbm:
            return rule(waves, n, k, blocks)
        if 2.0 * k < n:
            return 320.0
        if waves > 0.25:
            return 16.0 if waves <= 0.5 else ALWAYS
        return 32.0 if k < n or gpu.shared_bytes > LARGE_SHARED else 23.0

    found: Number = np.vectorize(most, otypes=[np.float64])(n, k)[()]
    return found


def _kind(gpu: Gpu) -> str:
    """Generation, and whether a part has HBM: its multiprocessors have more memory on chip then."""
    return gpu.architecture + ("-hbm" if gpu.shared_bytes > LARGE_SHARED else "")


def _ampere_hbm(waves: float, n: float, k: float, blocks: int) -> float:
    if waves >= 1.0:
        return 128.0 if waves >= 3.0 else 64.0 if k < n else 32.0
    if k > n and blocks >= 48 and waves < 0.75 and (k >= 3.0 * n or 1.0 / 3.0 <= waves < 0.5):
        return TALL
    tall = k >= 3.0 * n and waves > 0.25
    square = k == n and blocks >= 48 and waves < 0.6
    between = k > n and 1.0 / 3.0 <= waves < 0.5
    if tall or square or between:
        return MOSTLY
    return 128.0 if k < n or (k == n and waves < 0.5) else 16.0


def _ampere(waves: float, n: float, k: float, blocks: int) -> float:
    return 128.0 if waves >= 1.0 else 64.0 if waves >= 0.5 else 16.0


def _ada(waves: float, n: float, k: float, blocks: int) -> float:
    if waves >= 2.0:
        return 256.0 if waves >= 3.0 else 128.0
    if waves >= 0.8:
        return 128.0 if k >= n or blocks >= 200 else 64.0
    if waves >= 0.5:
        return 64.0 if k > 2.0 * n else 8.0 if blocks >= 64 else 32.0
    if k > n and blocks <= 48:
        return 12.0 if k >= 3.0 * n else 10.0
    return 16.0 if k > 2.0 * n or blocks < 48 else 8.0


def _hopper(waves: float, n: float, k: float, blocks: int) -> float:
    if waves >= 1.0:
        return 64.0 if waves >= 3.0 else 48.0 if waves >= 2.0 else 32.0
    if waves >= 0.75 or (waves >= 0.5 and k < n):
        return 16.0
    square = k == n and blocks >= 36 and waves >= 0.6
    return TALL if square or (k > n and blocks >= 36) else MOSTLY


def _blackwell_hbm(waves: float, n: float, k: float, blocks: int) -> float:
    return 32.0 if waves >= 3.0 else 8.0 if waves >= 1.0 and k < n else ALWAYS


def _blackwell(waves: float, n: float, k: float, blocks: int) -> float:
    if waves >= 2.0:
        return 256.0 if waves >= 3.0 else 128.0
    if waves >= 0.8:
        return 96.0 if k >= n else 64.0
    if waves >= 0.5:
        return 64.0 if 2.0 * k >= n and blocks >= 128 else 8.0
    return 16.0 if k > 2.0 * n and blocks > 64 else 8.0


Rule = Callable[[float, float, float, int], float]
_RULES: Final[Mapping[str, Rule | float]] = {
    "volta": MOSTLY,
    "turing": MOSTLY,
    "ampere": _ampere,
    "ampere-hbm": _ampere_hbm,
    "ada": _ada,
    "hopper-hbm": _hopper,
    "blackwell": _blackwell,
    "blackwell-hbm": _blackwell_hbm,
    "blackwell-ultra-hbm": _blackwell_hbm,
    "cdna2": ALWAYS,
    "cdna3": ALWAYS,
    "cdna4-hbm": ALWAYS,
}
