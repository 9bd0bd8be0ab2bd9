"""Linear layer of few tokens with 4-bit weights in groups of 128, widened as they are read."""

from roofline.bench.gpu.kernels import GROUP, MOST_ROWS, w4a16_gemv
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
        "scale": make.normal(n, k // GROUP, of="bf16"),
        "zero": make.normal(n, k // GROUP, of="bf16"),
        "values": make.normal(m, k, of="bf16"),
        "output": make.empty(m, n, of="bf16"),
    }


def kernels(gpu, weight, scale, zero, values, output):
    """One product."""
    return w4a16_gemv(weight, scale, zero, values, output, element="bf16")


def work(at: Shape) -> Work:
    """Packed weights once, activations in and out."""
    m, n, k = float(at["m"]), float(at["n"]), float(at["k"])
    return Work(
        flops=2.0 * m * n * k,
        weight_bytes=n * k * PACKED,
        activation_bytes=(m * k + m * n) * WIDTH,
    )


PROBE = Probe(
    name="w4a16-gemv",
    version=1,
    kind="gemm",
    axes={"m": tuple(range(1, MOST_ROWS + 1)), "n k": WIDTHS},
    arguments=arguments,
    work=work,
    streamed=("weight", "scale", "zero"),
    states=("cold",),
    arithmetic="fp32",
    backends=("cupy",),
    kernels=kernels,
    form="product-packed",
)
