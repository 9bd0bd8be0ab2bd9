"""Probes of the products of latent attention that have a matrix for each head, by cuBLASLt.

While decoding, queries are taken into the latent and results out of it, head by head
(DeepSeek-AI 2024, arXiv 2405.04434, section 2.1). Where the multiplier takes 8 bits the input is
converted first, as in `roofline.bench.gpu.library_probes`.
"""

from collections.abc import Sequence
from typing import Any, Final

from roofline.bench.elements import stored
from roofline.bench.gpu.cublaslt import TYPES, Arithmetic
from roofline.bench.gpu.device import Sku
from roofline.bench.gpu.kernels import LARGEST, quantise
from roofline.bench.gpu.launch import Call, Multiply
from roofline.bench.gpu.library_probes import ELEMENT, regime
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work

ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""Tokens. [token]"""
HEADS: Final = (8, 16, 32, 64, 128)
"""On the device, of DeepSeek-V3's 128. [1]"""
PLAIN: Final = 128
LATENT: Final = 512
"""Widths of a head without its rotated part, and of the latent."""


def absorbed(name: str, arithmetic: Arithmetic, inner: int, outer: int) -> Probe:
    """Probe of ``Y[h, m, outer] = X[h, m, inner] · W[h, outer, inner]ᵀ`` for each head h.

    Args:
        name: As its file is called.
        arithmetic: ``"bf16"`` or ``"fp8"``.
        inner, outer: `PLAIN` and `LATENT` into the latent, the other way round out of it.
    """
    narrow, width = arithmetic in LARGEST, stored(arithmetic).itemsize

    def arguments(make: Maker, at: Shape) -> dict[str, object]:
        tokens, heads = at["tokens"], at["heads"]
        rows = heads * tokens
        room = (
            {"narrowed": make.empty(rows, inner, of=arithmetic), "scales": make.empty(rows)}
            if narrow
            else {}
        )
        return {
            "values": make.normal(rows, inner, of="bf16"),
            "weight": make.normal(heads, outer, inner, of=arithmetic),
            "output": make.empty(heads, tokens, outer, of=TYPES[arithmetic].result),
            **room,
        }

    def kernels(
        gpu: Sku, values: Any, weight: Any, output: Any, narrowed: Any = None, scales: Any = None
    ) -> Sequence[Call]:
        heads, tokens, _ = output.shape
        first = quantise(values, narrowed, scales, of=arithmetic, element="bf16") if narrow else ()
        operand = (narrowed if narrow else values).reshape(heads, tokens, inner)
        return (*first, Multiply(arithmetic, operand, weight, output))

    def work(at: Shape) -> Work:
        tokens, heads = float(at["tokens"]), float(at["heads"])
        read = inner * (width + narrow * (ELEMENT + width))
        return Work(
            flops=2.0 * tokens * heads * inner * outer,
            weight_bytes=heads * inner * outer * width,
            activation_bytes=tokens * heads * (read + outer * ELEMENT),
        )

    return Probe(
        name=name,
        version=1,
        kind="latent-heads",
        axes={"tokens": ROWS, "heads": HEADS, "inner": (inner,)},
        arguments=arguments,
        work=work,
        streamed=("weight",),
        states=("cold",),
        regime=lambda at: regime({"m": at["tokens"]}),
        arithmetic=arithmetic,
        backends=("cupy",),
        kernels=kernels,
        form="latent-heads",
    )
