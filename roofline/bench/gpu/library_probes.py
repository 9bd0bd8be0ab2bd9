"""Probes of libraries on a GPU: products by cuBLASLt, and collectives by NCCL.

There is one for each arithmetic type, all of the same shapes, and one for each operation, all of
the same sizes. Where the multiplier takes 8 bits, the 16-bit input is converted first, with a scale
for each token, as an engine has to: both kernels are timed. Scales of the product itself, which a
library applies as it writes the result, are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roofline.bench.elements import stored
from roofline.bench.gpu.cublaslt import SCALED_ROWS, TYPES, Arithmetic
from roofline.bench.gpu.device import Sku
from roofline.bench.gpu.kernels import BLOCK, LARGEST, quantise, quantise_blocks
from roofline.bench.gpu.launch import Call, Collective, Multiply, Operation, ceil_div
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.kernels import latent_module
from roofline.cost.kernels.collective import moved
from roofline.cost.kernels.gemm import SCALED_EIGHT
from roofline.cost.work import Work
from roofline.units import PREFIX

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
BLOCK_WIDTHS: Final = (
    (2112, 7168),  # DeepSeek-V3: latents
    (24576, 1536),  # its query heads, and the same on one of eight devices
    (3072, 1536),
    (32768, 512),  # keys and values of a latent, and the same
    (4096, 512),
    (7168, 16384),  # its output, and the same
    (7168, 2048),
    (36864, 7168),  # gate and up of its dense layers, and the same
    (4608, 7168),
    (7168, 18432),  # their down, and the same
    (7168, 2304),
    (4096, 7168),  # gate and up of its shared expert
    (6144, 4096),  # Qwen3 8B: query, keys and values together
    (24576, 4096),  # its gate and up
    (4096, 12288),  # its down
)
DECODED: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""Tokens that are decoded at once. [token]"""
HEADS: Final = (8, 16, 32, 64, 128)
"""On the device, of DeepSeek-V3's 128. [1]"""
PLAIN: Final = int(latent_module.PLAIN)
LATENT: Final = int(latent_module.LATENT)
"""Widths of a head without its rotated part, and of the latent."""
HOPPER: Final = 90
"""Oldest architecture with scales of blocks of single precision."""
ELEMENT: Final = 2.0
"""Bytes of an element of an input that is converted. [B]"""
SIDE: Final = 8192
"""m, n and k of the product whose rate is watched."""
SUSTAINED_S: Final = 3.0
"""Work after which a device that its power limit slows down has been slowed down; assumed. [s]"""
FEW: Final = 16
SOME: Final = 256
"""Tokens up to which weights bind, and up to which tiles are not full."""
SIZES: Final = tuple(
    sorted(
        int(PREFIX["Ki"]) * factor * 2**power for factor in (1, 3) for power in range(21 - factor)
    )
)
"""Payloads from 1 KiB to 1 GiB, two for each octave. [B]"""
RANKS: Final = (2, 4, 8)


def linear(
    name: str,
    arithmetic: Arithmetic,
    *,
    rows: Sequence[int] = ROWS,
    widths: Sequence[tuple[int, int]] = WIDTHS,
    busy_s: float = 0.0,
) -> Probe:
    """Probe of ``Y[m, n] = X[m, k] · W[n, k]ᵀ`` by cuBLASLt.

    Activations stay in the cache, as an engine leaves them there; weights are new every time.

    Args:
        name: As its file is called.
        arithmetic: A key of `roofline.bench.gpu.cublaslt.TYPES`.
        rows: m of its points. [token]
        widths: n and k of its points.
        busy_s: Time that the device is kept at work before the first sample. [s]
    """
    types, narrow = TYPES[arithmetic], arithmetic in LARGEST
    operand = "fp32" if arithmetic == "tf32" else arithmetic
    width, result = stored(operand).itemsize, stored(types.result).itemsize

    def arguments(make: Maker, at: Shape) -> dict[str, object]:
        m, n, k = at["m"], at["n"], at["k"]
        room = {"narrowed": make.empty(m, k, of=operand), "scales": make.empty(m)} if narrow else {}
        return {
            "values": make.normal(m, k, of="bf16" if narrow else operand),
            "weight": make.normal(n, k, of=operand),
            "output": make.empty(m, n, of=types.result),
            **room,
        }

    def kernels(
        gpu: Sku, values: Any, weight: Any, output: Any, narrowed: Any = None, scales: Any = None
    ) -> Sequence[Call]:
        if not narrow:
            return (Multiply(arithmetic, values, weight, output),)
        first = quantise(values, narrowed, scales, of=arithmetic, element="bf16")
        return (*first, Multiply(arithmetic, narrowed, weight, output))

    def work(at: Shape) -> Work:
        m, n, k = (float(at[axis]) for axis in "mnk")
        return Work(
            flops=2.0 * m * n * k,
            weight_bytes=n * k * width,
            activation_bytes=m * k * (width + narrow * (ELEMENT + width)) + m * n * result,
        )

    axes: Mapping[str, Sequence[Any]] = {"m": rows, "n k": widths}
    return Probe(
        name=name,
        version=2 if narrow else 1,
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
        busy_s=busy_s,
    )


def block_scaled(name: str) -> Probe:
    """Probe of the same in e4m3 with scales of blocks, as DeepSeek-V3's weights have them.

    A scale for each 128 of a row of X, made with it, and one for each 128 × 128 of W. Rows are
    filled up to a multiple of 4, as the library wants them.
    """

    def arguments(make: Maker, at: Shape) -> dict[str, object]:
        m, n, k = at["m"], at["n"], at["k"]
        rows, blocks = SCALED_ROWS * ceil_div(m, SCALED_ROWS), ceil_div(k, BLOCK)
        across = SCALED_ROWS * ceil_div(blocks, SCALED_ROWS)
        return {
            "values": make.normal(m, k, of="bf16"),
            "weight": make.normal(n, k, of="fp8"),
            "weight_scales": make.normal(ceil_div(n, BLOCK), across),
            "output": make.empty(rows, n, of="bf16"),
            "narrowed": make.empty(rows, k, of="fp8"),
            "scales": make.empty(blocks, rows),
        }

    def kernels(
        gpu: Sku,
        values: Any,
        weight: Any,
        weight_scales: Any,
        output: Any,
        narrowed: Any,
        scales: Any,
    ) -> Sequence[Call]:
        first = quantise_blocks(values, narrowed, scales, element="bf16")
        both = scales, weight_scales
        return (*first, Multiply("fp8_block", narrowed, weight, output, both))

    def work(at: Shape) -> Work:
        m, n, k = (float(at[axis]) for axis in "mnk")
        return Work(
            flops=2.0 * m * n * k,
            weight_bytes=n * k * SCALED_EIGHT,
            activation_bytes=m * k * (ELEMENT + 2.0) + (m * n) * ELEMENT,
        )

    return Probe(
        name=name,
        version=1,
        kind="gemm",
        axes={"m": ROWS, "n k": BLOCK_WIDTHS},
        arguments=arguments,
        work=work,
        streamed=("weight", "weight_scales"),
        states=("cold",),
        regime=regime,
        arithmetic="fp8",
        backends=("cupy",),
        kernels=kernels,
        architecture=HOPPER,
        form="gemm-fp8-block",
    )


def absorbed(name: str, inner: int, outer: int) -> Probe:
    """Probe of ``Y[h, m, outer] = X[h, m, inner] · W[h, outer, inner]ᵀ`` in bf16 for each head h.

    While decoding, latent attention takes queries into the latent and results out of it, head by
    head. Source: DeepSeek-AI 2024 (arXiv 2405.04434), section 2.1.

    Args:
        name: As its file is called.
        inner, outer: `PLAIN` and `LATENT` into the latent, the other way round out of it.
    """

    def arguments(make: Maker, at: Shape) -> dict[str, object]:
        tokens, heads = at["tokens"], at["heads"]
        return {
            "values": make.normal(heads, tokens, inner, of="bf16"),
            "weight": make.normal(heads, outer, inner, of="bf16"),
            "output": make.empty(heads, tokens, outer, of="bf16"),
        }

    def work(at: Shape) -> Work:
        tokens, heads = float(at["tokens"]), float(at["heads"])
        return Work(
            flops=2.0 * tokens * heads * inner * outer,
            weight_bytes=heads * inner * outer * ELEMENT,
            activation_bytes=tokens * heads * (inner + outer) * ELEMENT,
        )

    return Probe(
        name=name,
        version=1,
        kind="latent-heads",
        axes={"tokens": DECODED, "heads": HEADS, "inner": (inner,)},
        arguments=arguments,
        work=work,
        streamed=("weight",),
        states=("cold",),
        regime=lambda at: regime({"m": at["tokens"]}),
        arithmetic="bf16",
        backends=("cupy",),
        kernels=lambda gpu, **arrays: (Multiply("bf16", **arrays),),
        form="latent-heads",
    )


def sustained(name: str, arithmetic: Arithmetic) -> Probe:
    """Probe of one large product on a device that has been at work for `SUSTAINED_S`."""
    return linear(name, arithmetic, rows=(SIDE,), widths=((SIDE, SIDE),), busy_s=SUSTAINED_S)


def regime(at: Shape) -> str:
    """Weights, tiles that are not full, or arithmetic."""
    return "few" if at["m"] <= FEW else "some" if at["m"] <= SOME else "many"


def collective(name: str, operation: Operation, way: str, ranks: Sequence[int] = RANKS) -> Probe:
    """Probe of an operation of NCCL on the first GPUs of a machine, in half precision.

    Args:
        name: As its file is called.
        operation, way: Keys of `roofline.cost.kernels.collective.PATHS`; the way says what the
            wires are counted to carry.
        ranks: GPUs that take part. [1]
    """

    def arguments(make: Maker, at: Shape) -> dict[str, object]:
        return {"payload": at["payload"], "ranks": at["ranks"]}

    def kernels(gpu: Sku, payload: int, ranks: int) -> Sequence[Collective]:
        return (Collective(operation, payload, ranks),)

    def work(at: Shape) -> Work:
        messages, share = moved(operation, way, float(at["ranks"]))
        return Work(wire_bytes=float(share) * at["payload"], messages=float(messages))

    return Probe(
        name=name,
        version=1,
        kind="collective",
        axes={"ranks": ranks, "payload": SIZES},
        arguments=arguments,
        work=work,
        backends=("cupy",),
        kernels=kernels,
        devices=lambda at: at["ranks"],
        form=f"collective-{name}",
    )
