"""A mixture of experts by PyTorch where it is installed: rows sorted, multiplied and summed up."""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.gpu.torch_attention import BorrowedArray, on_stream
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.kernels.routing import assigned, balanced, power_law
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
def chosen(tokens: int, every: int, local: int, active: int, skew: int) -> NDArray[np.int64]:
    """Experts of each token, [tokens, active]; the first are on the device, the busiest of all.

    >>> chosen(4, 8, 8, 2, 0).tolist()
    [[0, 4], [1, 5], [2, 6], [3, 7]]
    """
    if skew:
        found = next(power_law(tokens, every, active, every // local, skew / 10.0, draws=1))
        return assigned(found, tokens, active)
    even = balanced(tokens, every, active)
    rows = np.bincount(even.ravel(), minlength=every).reshape(-1, local).sum(axis=1)
    moved: NDArray[np.int64] = (even - int(rows.argmax()) * local) % every
    return moved


@cache
def loads(tokens: int, every: int, local: int, active: int, skew: int) -> NDArray[np.int64]:
    """Rows of each expert on the device.

    >>> loads(4, 8, 8, 2, 0).tolist()
    [1, 1, 1, 1, 1, 1, 1, 1]
    """
    found = np.bincount(chosen(tokens, every, local, active, skew).ravel(), minlength=every)
    return found[:local]


def _shape(at: Shape) -> tuple[int, int, int, int, int]:
    return at["m"], at["experts"], at["local"], at["active"], at["skew"]


def arguments(make: Maker, at: Shape) -> Mapping[str, object]:
    """Tokens, their experts and the shares of those, and the weights by output."""
    tokens, hidden, inter, local = at["m"], at["hidden"], at["inter"], at["local"]
    return {
        "values": make.normal(tokens, hidden, of="bf16"),
        "chosen": make.constant(chosen, *_shape(at)),
        "shares": make.normal(tokens * at["active"], of="bf16"),
        "gate_up": make.normal(local, 2 * inter, hidden, of="bf16"),
        "down": make.normal(local, hidden, inter, of="bf16"),
        "output": make.empty(tokens, hidden, of="bf16"),
        "rows": int(loads(*_shape(at)).sum()),
    }


def launch(
    xp: Any, values: Any, chosen: Any, shares: Any, gate_up: Any, down: Any, output: Any, rows: int
) -> None:
    """One mixture; PyTorch makes room for what is between."""
    arrays = values, chosen, shares, gate_up, down, output
    with on_stream(xp, "grouped products"):
        mixture(*(plain(BorrowedArray(array)) for array in arrays), rows=rows)


def mixture(
    values: Any, chosen: Any, shares: Any, gate_up: Any, down: Any, output: Any, *, rows: int
) -> None:
    """The same on tensors: rows sorted by expert, both products, and their sum by token."""
    import torch

    local, active = gate_up.shape[0], chosen.shape[1]
    experts, order = torch.sort(chosen.flatten())
    first = torch.arange(local, device=experts.device)
    ends = torch.searchsorted(experts, first, right=True).int()
    here = order[:rows]
    tokens = here // active
    found = products(values.index_select(0, tokens), ends, gate_up, down)
    found = found * shares.index_select(0, here)[:, None]
    output.zero_().index_add_(0, tokens, found)


def products(values: Any, ends: Any, gate_up: Any, down: Any) -> Any:
    """Gate and up, the gate's function, and down of rows that lie expert by expert.

    Args:
        values: Of shape [rows, hidden].
        ends: Place after the last row of each expert, int32.
        gate_up, down: Weights by output.
    """
    import torch

    both = torch._grouped_mm(values, gate_up.transpose(1, 2), offs=ends)
    gate, up = both.chunk(2, dim=1)
    inner = torch.nn.functional.silu(gate).mul_(up)
    return torch._grouped_mm(inner, down.transpose(1, 2), offs=ends)


@lru_cache(maxsize=64)
def plain(borrowed: BorrowedArray) -> Any:
    """PyTorch's view of an array, bfloat16 where it has 16 bits; kept as those of attention are."""
    import torch

    found = torch.from_dlpack(borrowed.array)
    return found.view(torch.bfloat16) if found.dtype == torch.uint16 else found


def work(at: Shape) -> Work:
    """Weights of the experts that have rows, once; rows in and out of both products, and tokens."""
    found, hidden, inter = loads(*_shape(at)), float(at["hidden"]), float(at["inter"])
    rows, touched = float(found.sum()), float((found > 0).sum())
    return Work(
        flops=2.0 * MATRICES * rows * hidden * inter,
        weight_bytes=touched * MATRICES * hidden * inter * WIDTH,
        activation_bytes=2.0
        * (rows * (hidden + MATRICES / 2.0 * inter) + at["m"] * hidden)
        * WIDTH,
    )


def regime(at: Shape) -> str:
    """Few tokens or many, of even loads or of others."""
    few = "few" if at["m"] <= FEW else "many"
    return f"{few} {'skewed' if at['skew'] else 'balanced'}"


def experts(name: str) -> Probe:
    """Probe of a mixture in bf16, called as its file is."""
    return Probe(
        name=name,
        version=1,
        kind="moe",
        axes={"m": ROWS, "hidden inter experts local active": MIXTURES, "skew": SKEWS},
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
        form="experts",
    )
