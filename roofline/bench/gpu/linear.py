"""Linear layers on a GPU: one probe for each arithmetic type, all of the same shapes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roofline.bench.elements import stored
from roofline.bench.gpu.calls import Multiply
from roofline.bench.gpu.cublaslt import TYPES, Arithmetic
from roofline.bench.gpu.device import Sku
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work

ROWS: Final = (
    *(1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768),
    *(1024, 2048, 4096, 8192, 16384),
)
"""Tokens; from a single one, through batches, to prompts."""
WIDTHS: Final = (
    (6144, 4096),  # Llama 3.1 8B: query, keys and values together
    (4096, 4096),  # its output
    (28672, 4096),  # its gate and up
    (4096, 14336),  # its down
    (128256, 4096),  # its LM head
    (10240, 8192),  # Llama 3.1 70B, the same four
    (8192, 8192),
    (57344, 8192),
    (8192, 28672),
    (1280, 8192),  # the same on one of eight devices
    (8192, 1024),
    (7168, 8192),
    (8192, 3584),
    (4608, 3584),  # Qwen2.5 7B
    (3584, 3584),
    (37888, 3584),
    (3584, 18944),
    (2112, 7168),  # DeepSeek-V3: latents, and query heads
    (24576, 1536),
    (3072, 2048),  # Llama 3.2 1B
    (2048, 8192),
)
FEW: Final = 16
SOME: Final = 256
"""Tokens up to which weights bind, and up to which tiles are not full."""


def linear(name: str, arithmetic: Arithmetic) -> Probe:
    """Probe of ``Y[m, n] = X[m, k] · W[n, k]ᵀ`` by cuBLASLt.

    Activations stay in the cache, as an engine leaves them there; weights are new every time.

    Args:
        name: As its file is called.
        arithmetic: A key of `roofline.bench.gpu.cublaslt.TYPES`.
    """
    types = TYPES[arithmetic]
    operand = "fp32" if arithmetic == "tf32" else arithmetic
    width, result = stored(operand).itemsize, stored(types.result).itemsize

    def arguments(make: Maker, at: Shape) -> dict[str, object]:
        m, n, k = at["m"], at["n"], at["k"]
        return {
            "values": make.normal(m, k, of=operand),
            "weight": make.normal(n, k, of=operand),
            "output": make.empty(m, n, of=types.result),
        }

    def kernels(gpu: Sku, values: Any, weight: Any, output: Any) -> Sequence[Multiply]:
        return (Multiply(arithmetic, values, weight, output),)

    def work(at: Shape) -> Work:
        m, n, k = (float(at[axis]) for axis in "mnk")
        return Work(
            flops=2.0 * m * n * k,
            weight_bytes=n * k * width,
            activation_bytes=m * k * width + m * n * result,
        )

    axes: Mapping[str, Sequence[Any]] = {"m": ROWS, "n k": WIDTHS}
    return Probe(
        name=name,
        version=1,
        kind="gemm",
        axes=axes,
        arguments=arguments,
        work=work,
        streamed=("weight",),
        states=("cold",),
        regime=regime,
        arithmetic=arithmetic,
        backends=("cupy",),
        kernels=kernels,
    )


def regime(at: Shape) -> str:
    """Weights, tiles that are not full, or arithmetic."""
    return "few" if at["m"] <= FEW else "some" if at["m"] <= SOME else "many"
