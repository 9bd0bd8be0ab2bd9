"""Mixtures of experts in 8-bit floats (e4m3), whose input is converted as an engine has to.

With a scale for each row of the input and of the weights, by PyTorch; and with one for each 128 of
a row and each 128 × 128 of a weight, by DeepGEMM, whose kernels vLLM and SGLang run for DeepSeek-V3
on Hopper. PyTorch has no grouped product with scales of blocks on a GPU of that architecture.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.gpu.device import Sku
from roofline.bench.gpu.kernels import BLOCK, quantise, quantise_blocks
from roofline.bench.gpu.launch import Call, ceil_div
from roofline.bench.gpu.torch_experts import (
    HOPPER,
    MATRICES,
    MIXTURES,
    SKEWS,
    chosen,
    loads,
    regime,
)
from roofline.bench.gpu.torch_experts import ROWS as TOKENS
from roofline.bench.gpu.torch_steps import step
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work

BLOCK_MIXTURES: Final = (
    (7168, 2048, 256, 32, 8),  # DeepSeek-V3 on one of eight devices
    (7168, 256, 256, 256, 8),  # the same, each expert split over eight devices
    (2048, 768, 128, 128, 8),  # Qwen3 30B A3B
)
"""Width, inner width, experts, those of them on the device, and those of a token."""
ALIGNED: Final = 4
"""Scales of blocks lie side by side for a multiple of this many rows."""
COMPILING_S: Final = 15.0
"""Time in which DeepGEMM compiles its kernels for the products of a mixture; assumed. [s]"""

_Product = Callable[[Any, Any, Any, Any, Any], Any]
"""Product of sorted rows: values, their scales, weights by output, theirs, and the layout."""


@cache
def places(block: int, *mixture: int) -> NDArray[np.int64]:
    """Place of each row of the device, sorted by expert, where experts begin at whole blocks.

    Args:
        block: Rows. [1]
        mixture: Tokens, experts, those on the device, those of a token, and skew.

    >>> places(4, 6, 2, 2, 1, 0).tolist()
    [0, 1, 2, 4, 5, 6]
    """
    held, room = loads(*mixture), _filled(block, *mixture)
    shift = np.cumsum(room) - room - (np.cumsum(held) - held)
    found: NDArray[np.int64] = np.arange(held.sum()) + np.repeat(shift, held)
    return found


@cache
def owners(block: int, *mixture: int) -> NDArray[np.int32]:
    """Expert of each place, −1 where no row lies.

    >>> owners(4, 6, 2, 2, 1, 0).tolist()
    [0, 0, 0, -1, 1, 1, 1, -1]
    """
    held = loads(*mixture)
    found = np.full(_filled(block, *mixture).sum(), -1, np.int32)
    found[places(block, *mixture)] = np.repeat(np.arange(len(held)), held)
    return found


@cache
def ends(block: int, *mixture: int) -> NDArray[np.int32]:
    """Place after the last one of each expert.

    >>> ends(4, 6, 2, 2, 1, 0).tolist()
    [4, 8]
    """
    return np.cumsum(_filled(block, *mixture)).astype(np.int32)


def _filled(block: int, *mixture: int) -> NDArray[np.int64]:
    """Rows of each expert on the device, filled up to whole blocks."""
    found: NDArray[np.int64] = -(-loads(*mixture) // block) * block
    return found


def _mixture(at: Shape) -> tuple[int, int, int, int, int]:
    return at["m"], at["experts"], at["local"], at["active"], at["skew"]


def experts(name: str, *, blocks: bool) -> Probe:
    """Probe of a mixture in e4m3.

    Both conversions, and the gate between the products, are kernels of their own; engines join the
    gate with the conversion after it. Where the rows of each expert lie is known beforehand.

    Args:
        name: As its file is called.
        blocks: Whether scales are of blocks, by DeepGEMM; else of rows, by PyTorch.
    """
    block, product = (BLOCK, by_block) if blocks else (1, by_row)

    def scales(make: Maker, rows: int, width: int) -> Any:
        """Room for those of some rows, side by side for each part of a row."""
        return make.empty(ceil_div(width, BLOCK) if blocks else 1, _aligned(rows))

    def weights(make: Maker, local: int, outputs: int, depth: int) -> tuple[Any, Any]:
        """By output, and their scales."""
        shape = (ceil_div(outputs, BLOCK), ceil_div(depth, BLOCK)) if blocks else (outputs,)
        return make.normal(local, outputs, depth, of="fp8"), make.normal(local, *shape)

    def arguments(make: Maker, at: Shape) -> Mapping[str, object]:
        tokens, hidden, inter, local = at["m"], at["hidden"], at["inter"], at["local"]
        rows = int(_filled(block, *_mixture(at)).sum())
        gate_up, gate_up_scales = weights(make, local, 2 * inter, hidden)
        down, down_scales = weights(make, local, hidden, inter)
        return {
            "values": make.normal(tokens, hidden, of="bf16"),
            "narrowed": make.empty(tokens, hidden, of="fp8"),
            "scales": scales(make, tokens, hidden),
            "chosen": make.constant(chosen, *_mixture(at)),
            "shares": make.normal(tokens * at["active"], of="bf16"),
            "places": make.constant(places, block, *_mixture(at)),
            "layout": make.constant(owners if blocks else ends, block, *_mixture(at)),
            "gate_up": gate_up,
            "gate_up_scales": gate_up_scales,
            "inner": make.empty(rows, inter, of="bf16"),
            "inner_narrowed": make.empty(rows, inter, of="fp8"),
            "inner_scales": scales(make, rows, inter),
            "down": down,
            "down_scales": down_scales,
            "output": make.empty(tokens, hidden, of="bf16"),
        }

    def kernels(
        gpu: Sku,
        values: Any,
        narrowed: Any,
        scales: Any,
        chosen: Any,
        shares: Any,
        places: Any,
        layout: Any,
        gate_up: Any,
        gate_up_scales: Any,
        inner: Any,
        inner_narrowed: Any,
        inner_scales: Any,
        down: Any,
        down_scales: Any,
        output: Any,
    ) -> Sequence[Call]:
        order: list[Any] = []

        def first(narrowed: Any, scales: Any, chosen: Any, places: Any, *rest: Any) -> None:
            order[:] = [sorted_choices(chosen, len(places))]
            rows = spread(order[0] // chosen.shape[1], narrowed, scales, places, inner.shape[0])
            widen(product, *rows, *rest)

        def second(chosen: Any, *rest: Any) -> None:
            narrow(product, order[0], order[0] // chosen.shape[1], *rest)

        convert = _blocks if blocks else _rows
        into = (narrowed, scales, chosen, places, gate_up, gate_up_scales, layout, inner)
        out = (chosen, inner_narrowed, inner_scales, shares, places)
        library = "DeepGEMM" if blocks else "grouped products in 8 bits"
        return (
            *convert(values, narrowed, scales),
            step(library, first, *into),
            *convert(inner, inner_narrowed, inner_scales),
            step(library, second, *out, down, down_scales, layout, output),
        )

    return Probe(
        name=name,
        version=1,
        kind="moe",
        axes={
            "m": TOKENS,
            "hidden inter experts local active": BLOCK_MIXTURES if blocks else MIXTURES,
            "skew": SKEWS,
        },
        arguments=arguments,
        work=work,
        streamed=("gate_up", "gate_up_scales", "down", "down_scales"),
        states=("cold",),
        regime=regime,
        arithmetic="fp8",
        provider="deep-gemm" if blocks else "torch",
        backends=("cupy",),
        kernels=kernels,
        needs=("torch", "deep_gemm") if blocks else ("torch",),
        architecture=HOPPER,
        build_s=COMPILING_S if blocks else 0.0,
        builds=lambda at: (at["hidden"], at["inter"], at["local"]),
        form="experts",
    )


def _aligned(rows: int) -> int:
    return ALIGNED * ceil_div(rows, ALIGNED)


def _rows(values: Any, output: Any, scales: Any) -> Sequence[Call]:
    return quantise(values, output, scales, of="fp8", element="bf16")


def _blocks(values: Any, output: Any, scales: Any) -> Sequence[Call]:
    return quantise_blocks(values, output, scales, element="bf16")


def sorted_choices(chosen: Any, rows: int) -> Any:
    """Choices of the device's experts, sorted by expert: places in [tokens, experts of a token]."""
    import torch

    return torch.sort(chosen.flatten()).indices[:rows]


def spread(tokens: Any, values: Any, scales: Any, places: Any, room: int) -> tuple[Any, Any]:
    """Rows and their scales, each at its place.

    Args:
        tokens: Token of each row.
        values: Of the tokens in 8 bits, [tokens, hidden].
        scales: Of the tokens, [parts of a row, tokens or more].
        places: Place of each row.
        room: Number of places. [1]
    """
    rows = values.new_empty(room, values.shape[1])
    beside = scales.new_empty(scales.shape[0], room)
    rows.index_copy_(0, places, values.index_select(0, tokens))
    beside.index_copy_(1, places, scales.index_select(1, tokens))
    return rows, beside


def widen(
    product: _Product,
    values: Any,
    scales: Any,
    weights: Any,
    weight_scales: Any,
    layout: Any,
    output: Any,
) -> None:
    """Write what the gate makes of the first product."""
    import torch

    gate, up = product(values, scales, weights, weight_scales, layout).chunk(2, dim=1)
    torch.mul(torch.nn.functional.silu(gate), up, out=output)


def narrow(
    product: _Product,
    order: Any,
    tokens: Any,
    values: Any,
    scales: Any,
    shares: Any,
    places: Any,
    weights: Any,
    weight_scales: Any,
    layout: Any,
    output: Any,
) -> None:
    """Write the sums of the second product by token, each row by its share."""
    found = product(values, scales, weights, weight_scales, layout)
    if len(places) < len(found):
        found = found.index_select(0, places)
    output.zero_().index_add_(0, tokens, found * shares.index_select(0, order)[:, None])


def by_row(values: Any, scales: Any, weights: Any, weight_scales: Any, ends: Any) -> Any:
    """Grouped product by PyTorch, with scales [1, rows] and [experts, outputs]."""
    import torch

    return torch._scaled_grouped_mm(
        values.view(torch.float8_e4m3fn),
        weights.view(torch.float8_e4m3fn).transpose(1, 2),
        scales[0, : len(values)],
        weight_scales,
        offs=ends,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )


def by_block(values: Any, scales: Any, weights: Any, weight_scales: Any, owners: Any) -> Any:
    """Grouped product by DeepGEMM, with scales [parts of a row, rows] and of 128 × 128 weights."""
    import torch
    from deep_gemm import m_grouped_fp8_gemm_nt_contiguous

    output = values.new_empty(len(values), weights.shape[1], dtype=torch.bfloat16)
    left = values.view(torch.float8_e4m3fn), scales.t()
    right = weights.view(torch.float8_e4m3fn), weight_scales
    m_grouped_fp8_gemm_nt_contiguous(left, right, output, owners)
    return output


def work(at: Shape) -> Work:
    """Weights of the experts that have rows, once; rows in and out of both products, and tokens."""
    found, hidden, inter = loads(*_mixture(at)), float(at["hidden"]), float(at["inter"])
    rows, touched = float(found.sum()), float((found > 0).sum())
    in_, out = 1.0, 2.0
    return Work(
        flops=2.0 * MATRICES * rows * hidden * inter,
        weight_bytes=touched * MATRICES * hidden * inter,
        activation_bytes=rows * ((in_ + out) * hidden + (2.0 * out + in_) * inter)
        + 2.0 * out * at["m"] * hidden,
    )
