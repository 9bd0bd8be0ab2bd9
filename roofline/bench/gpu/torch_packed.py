"""Linear layers with 4-bit weights by PyTorch, which widens them to bf16 as it multiplies."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from roofline.bench.gpu.torch_attention import BorrowedArray, on_stream
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.kernels.catalog import PACKED
from roofline.cost.work import Work

ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)
WIDTHS: Final = (
    (6144, 4096),  # Llama 3.1 8B: query, keys and values together
    (4096, 4096),  # its output
    (28672, 4096),  # its gate and up
    (4096, 14336),  # its down
    (10240, 8192),  # Llama 3.1 70B, the same
    (57344, 8192),
    (8192, 28672),
)
WIDTH: Final = 2
GROUP: Final = 128
"""Weights that share a scale and a zero point."""
TILES: Final = 8
"""Steps of 16 of the inner dimension that lie together (``innerKTiles``)."""
PACKING: Final = 8, 16 * TILES, 32, TILES // 2
"""Outputs and depth of a tile of weights; its threads, and the words of each."""
FEW: Final = 16


def arguments(make: Maker, at: Shape) -> Mapping[str, object]:
    """Input, weights as tensor cores take them, and a scale and a zero point for each group."""
    m, n, k = at["m"], at["n"], at["k"]
    outputs, depth, threads, words = PACKING
    return {
        "values": make.normal(m, k, of="bf16"),
        "weight": make.normal(n // outputs, k // depth, threads, words, of="words"),
        "scales": make.normal(k // GROUP, n, 2, of="bf16"),
    }


def launch(xp: Any, values: Any, weight: Any, scales: Any) -> None:
    """One product; PyTorch makes room for the result itself."""
    import torch

    kinds = torch.bfloat16, torch.int32, torch.bfloat16
    arrays = values, weight, scales
    x, packed, pairs = (view(BorrowedArray(a), kind) for a, kind in zip(arrays, kinds, strict=True))
    with on_stream(xp, "4-bit weights"):
        torch._weight_int4pack_mm(x, packed, GROUP, pairs)


@lru_cache(maxsize=64)
def view(borrowed: BorrowedArray, kind: Any) -> Any:
    """PyTorch's view of an array as another type; kept as those of attention are."""
    import torch

    return torch.from_dlpack(borrowed.array).view(kind)


def work(at: Shape) -> Work:
    """Packed weights once, rows in and out."""
    m, n, k = (float(at[axis]) for axis in "mnk")
    return Work(
        flops=2.0 * m * n * k, weight_bytes=n * k * PACKED, activation_bytes=(m * k + m * n) * WIDTH
    )


def packed(name: str) -> Probe:
    """Probe of products with 4-bit weights and rows in bf16, called as its file is."""
    return Probe(
        name=name,
        version=1,
        kind="gemm",
        axes={"m": ROWS, "n k": WIDTHS},
        arguments=arguments,
        launch=launch,
        work=work,
        streamed=("weight", "scales"),
        states=("cold",),
        regime=lambda at: "few" if at["m"] <= FEW else "many",
        arithmetic="bf16",
        provider="torch",
        backends=("cupy",),
        needs=("torch",),
        form="product-packed",
    )
