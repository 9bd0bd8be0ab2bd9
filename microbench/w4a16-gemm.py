"""Linear layer of few tokens with 4-bit weights in groups of 128, widened as they are read."""

import numpy as np
from numpy.typing import NDArray

from roofline.bench.gpu.kernels import GROUP, MOST_ROWS, w4a16_gemm
from roofline.bench.gpu.library_probes import WIDTHS
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.kernels.catalog import PACKED
from roofline.cost.work import Work

WIDTH = 2
IN_A_WORD = 8


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Eight weights in a word, a scale and a zero point for each group, activations and result."""
    m, n, k = at["m"], at["n"], at["k"]
    return {
        "weight": make.normal(n, k // IN_A_WORD, of="words"),
        "scale": make.normal(k // GROUP, n, of="bf16"),
        "zero": make.constant(eights, k // GROUP, n),
        "values": make.normal(m, k, of="bf16"),
        "output": make.empty(m, n, of="bf16"),
    }


def eights(*shape: int) -> NDArray[np.uint16]:
    """Zero points in the middle of 4 bits, as bf16."""
    return np.full(shape, 8.0, np.float32).view(np.uint16)[..., 1::2].copy()


def kernels(gpu, weight, scale, zero, values, output):
    """One product."""
    arrays = weight, scale, zero, values, output
    return w4a16_gemm(*arrays, element="bf16", multiprocessors=gpu.multiprocessors)


def work(at: Shape) -> Work:
    """Packed weights once, activations in and out."""
    m, n, k = float(at["m"]), float(at["n"]), float(at["k"])
    return Work(
        flops=2.0 * m * n * k,
        weight_bytes=n * k * PACKED,
        activation_bytes=(m * k + m * n) * WIDTH,
    )


PROBE = Probe(
    name="w4a16-gemm",
    version=1,
    kind="gemm",
    axes={"m": (1, 2, 4, 8, MOST_ROWS), "n k": WIDTHS},
    arguments=arguments,
    work=work,
    streamed=("weight", "scale"),
    states=("cold",),
    arithmetic="bf16",
    backends=("cupy",),
    kernels=kernels,
    form="product-packed",
)
