"""Products of a mixture of experts by PyTorch where it is installed: a group of rows for each."""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.gpu.torch_attention import Borrowed, on_stream
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.kernels.routing import balanced, power_law
from roofline.cost.work import Work

MIXTURES: Final = (
    (4096, 14336, 8, 8, 2),  # Mixtral 8x7B
    (4096, 1792, 8, 8, 2),  # the same, each expert split over eight devices
    (2048, 768, 128, 128, 8),  # Qwen3 30B A3B
    (7168, 2048, 256, 32, 8),  # DeepSeek-V3 on one of eight devices
)
"""Width, inner width, experts, those of them on the device, and those of a token."""
ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Tokens of all devices. [token]"""
SKEWS: Final = (0, 12)
"""Tenths of the exponent of the loads' power law; 0 where loads are balanced."""
WIDTH: Final = 2
MATRICES: Final = 3
HOPPER: Final = 90
"""Oldest architecture for which PyTorch has one kernel for all groups."""
FEW: Final = 32
"""Tokens up to which the weights of experts bind."""


@cache
def loads(tokens: int, every: int, local: int, active: int, skew: int) -> NDArray[np.int64]:
    """Rows of each expert on the device; of devices that differ, the busiest.

    >>> loads(4, 8, 8, 2, 0).tolist()
    [1, 1, 1, 1, 1, 1, 1, 1]
    """
    if skew:
        found = next(power_law(tokens, every, active, every // local, skew / 10.0, draws=1))
        return found[:local]
    chosen = np.bincount(balanced(tokens, every, active).ravel(), minlength=every)
    parts = chosen.reshape(-1, local)
    busiest: NDArray[np.int64] = parts[parts.sum(axis=1).argmax()]
    return busiest


def ends(tokens: int, every: int, local: int, active: int, skew: int) -> NDArray[np.int32]:
    """Place after the last row of each expert."""
    return np.cumsum(loads(tokens, every, local, active, skew)).astype(np.int32)


def _loads(at: Shape) -> NDArray[np.int64]:
    return loads(at["m"], at["experts"], at["local"], at["active"], at["skew"])


def arguments(make: Maker, at: Shape) -> Mapping[str, object]:
    """Rows sorted by expert, where each expert's end, and the weights by output."""
    rows, hidden, inter, local = int(_loads(at).sum()), at["hidden"], at["inter"], at["local"]
    shape = at["m"], at["experts"], local, at["active"], at["skew"]
    return {
        "values": make.normal(rows, hidden, of="bf16"),
        "ends": make.constant(ends, *shape),
        "gate_up": make.normal(local, 2 * inter, hidden, of="bf16"),
        "down": make.normal(local, hidden, inter, of="bf16"),
    }


def launch(xp: Any, values: Any, ends: Any, gate_up: Any, down: Any) -> None:
    """Gate and up, the gate's function, and down; PyTorch makes room for the results itself."""
    x, places, wide, narrow = (plain(Borrowed(array)) for array in (values, ends, gate_up, down))
    with on_stream(xp, "grouped products"):
        products(x, places, wide, narrow)


def products(values: Any, ends: Any, gate_up: Any, down: Any) -> Any:
    """The same on tensors, and its result."""
    import torch

    both = torch._grouped_mm(values, gate_up.transpose(1, 2), offs=ends)
    gate, up = both.chunk(2, dim=1)
    inner = torch.nn.functional.silu(gate).mul_(up)
    return torch._grouped_mm(inner, down.transpose(1, 2), offs=ends)


@lru_cache(maxsize=4)
def plain(borrowed: Borrowed) -> Any:
    """PyTorch's view of an array, bfloat16 where it has 16 bits; kept as those of attention are."""
    import torch

    found = torch.from_dlpack(borrowed.array)
    return found.view(torch.bfloat16) if found.dtype == torch.uint16 else found


def work(at: Shape) -> Work:
    """Weights of the experts that have rows, once; rows in and out of both products."""
    found, hidden, inter = _loads(at), float(at["hidden"]), float(at["inter"])
    rows, touched = float(found.sum()), float((found > 0).sum())
    return Work(
        flops=2.0 * MATRICES * rows * hidden * inter,
        weight_bytes=touched * MATRICES * hidden * inter * WIDTH,
        activation_bytes=rows * 2.0 * (hidden + MATRICES / 2.0 * inter) * WIDTH,
    )


def regime(at: Shape) -> str:
    """Few tokens or many, of even loads or of others."""
    few = "few" if at["m"] <= FEW else "many"
    return f"{few} {'skewed' if at['skew'] else 'balanced'}"


def experts(name: str) -> Probe:
    """Probe of the products of a mixture in bf16, called as its file is."""
    return Probe(
        name=name,
        version=1,
        kind="moe",
        axes={
            "m": ROWS,
            "hidden inter experts local active": MIXTURES,
            "skew": SKEWS,
        },
        arguments=arguments,
        launch=launch,
        work=work,
        streamed=("gate_up", "down"),
        states=("cold",),
        regime=regime,
        arithmetic="bf16",
        provider="torch",
        backends=("cupy",),
        needs=("torch",),
        architecture=HOPPER,
    )
