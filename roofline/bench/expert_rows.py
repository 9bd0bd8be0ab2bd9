"""Measured mixtures of experts as columns of `roofline.cost.kernels.experts`.

Rows are of the device with most to do. How many rows its experts get follows from how the source
made up its tokens, and from the gate that a kernel has built in.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.kernel_rows import (
    KEY,
    Name,
    RowGroup,
    columns,
    families,
    group_of,
    newest,
    parts,
)
from roofline.cost.kernels import experts, routing
from roofline.cost.kernels.form import Form
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu

if TYPE_CHECKING:
    import pandas

WEIGHTS: Final[Mapping[str, tuple[float, float, float]]] = {
    "bfloat16": (2.0, 16.0, 16.0),
    "float16": (2.0, 16.0, 16.0),
    "fp8": (1.0, 8.0, 8.0),
    "fp8_block": (1.0 + 4.0 / 128**2, 8.0, 8.0),
    "nvfp4": (0.5 + 1.0 / 16, 4.0, 4.0),
    "w4a16_mxfp4": (0.5 + 1.0 / 32, 4.0, 16.0),
    "w4a8_mxfp4_mxfp8": (0.5 + 1.0 / 32, 4.0, 8.0),
    "int4_wo": (0.5 + 2.0 / 128, 4.0, 16.0),
    "w4afp8": (0.5 + 2.0 / 128, 4.0, 8.0),
}
"""Bytes per weight with its scales; bits of a weight and of an activation. Scales of fp8_block have
32 bits for each 128 × 128; those of nvfp4 8 bits for each 16, of mxfp4 for each 32 (OCP
Microscaling Formats 1.0, table 1); of int4 16 bits for each 128."""
ARITHMETIC: Final[Mapping[float, tuple[str, ...]]] = {
    16.0: ("bf16", "fp16"),
    8.0: ("fp8", "bf16"),
    4.0: ("fp4", "fp8", "bf16"),
}
"""Arithmetic by bits of an activation; the first that a device has."""
EXPONENTS: Final[Mapping[str, float]] = {
    "balanced": 0.0,
    "uniform": 0.0,
    "power_law_0.6": 0.6,
    "power_law_0.8": 0.8,
    "power_law_1.01": 1.01,
    "power_law_1.02": 1.02,
    "power_law_1.2": 1.2,
}
WIDTH: Final = 2.0
"""Bytes per activation on the way in and out."""
SIZES: Final = ("num_tokens", "hidden", "inter", "topk", "experts", "tp", "ep")
SHAPE: Final = ("hidden", "inter", "experts", "topk")
SPLIT: Final = ("tp", "ep")
FEW: Final = 5
"""Shapes that a validation needs, which leaves one out of four others at least; where they are
fewer, how they are split counts too."""
NOT_GATED: Final = frozenset({(5120, 22, 512), (2688, 22, 512), (1856, 6, 128)})
"""Inner width, experts of a token and experts of networks whose experts have two matrices, a
squared ReLU between them: Nemotron 3 (NVIDIA 2025, Nemotron 3 white paper)."""
LIMITED: Final = (7168, 256)
"""Width and experts of the network whose gate is limited to groups: DeepSeek-V3."""
LIMITING: Final = frozenset({"sglang", "vllm"})
"""Engines that were measured with a network's own gate."""
UNLIMITED: Final = frozenset({("vllm", "0.14.0")})
"""Engines and releases that were measured with a free gate before that."""
LATENCY: Final = "min_latency"
"""Kernels of TensorRT-LLM that were measured with that gate for every network."""
ALONE: Final = ("sglang", "0.5.10")
"""Engine and release that were measured on the tokens of one device."""


def expert_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Mixtures of experts, as the most loaded device sees them; a family is a network's shape.

    Shapes that only an older release was measured on are taken as those of the latest.
    """
    others = [key for key in KEY if key != "version"]
    latest = frame.groupby(others, observed=True).version.transform(newest)
    again = frame.duplicated([*others, *SIZES, "distribution"], keep=False)
    for name, rows in parts(frame.assign(version=frame.version.where(again, latest)), KEY):
        tokens, hidden, inter, active, every, tp, ep = columns(rows, SIZES)
        skew = np.array([EXPONENTS[str(each)] for each in rows.distribution])
        met, chosen, touched = np.empty((3, len(rows)))
        tiles = {height: np.empty(len(rows)) for height in experts.HEIGHTS}
        gates = gate_of(name, hidden, every)
        for gate in np.unique(gates):
            some = gates == gate
            met[some], chosen[some], touched[some], found = routing.columns(
                tokens[some], every[some], active[some], ep[some], skew[some], gate=str(gate)
            )
            for height, each in found.items():
                tiles[height][some] = each
        dims = columns_of(name["dtype"], met, hidden, inter / tp, active, np.ceil(every / ep), rows)
        yield made(name, {**dims, "rows": chosen, "touched": touched}, tiles, rows, SHAPE)


def gate_of(name: Name, hidden: Array, every: Array) -> "np.typing.NDArray[np.str_]":
    """Gate that the rows of a kernel were measured with, as `roofline.cost.kernels.routing`."""
    if LATENCY in name["kernel"]:
        return np.full(len(hidden), routing.LIMITED)
    if (name["backend"], name["version"]) == ALONE:
        return np.full(len(hidden), routing.ALONE)
    if (name["backend"], name["version"]) in UNLIMITED:
        return np.full(len(hidden), routing.FREE)
    own = (hidden == LIMITED[0]) & (every == LIMITED[1]) & (name["backend"] in LIMITING)
    return np.where(own, routing.LIMITED, routing.FREE)


def columns_of(
    dtype: str,
    tokens: Array,
    hidden: Array,
    inter: Array,
    active: Array,
    local: Array,
    rows: "pandas.DataFrame",
) -> dict[str, Array]:
    """Columns of `experts.expert_dims` that do not depend on loads."""
    width, *bits = WEIGHTS[dtype]
    named = zip(rows.inter, rows.topk, rows.experts, strict=True)
    plain = np.array([(int(f), int(k), int(e)) in NOT_GATED for f, k, e in named])
    return {
        "tokens": tokens,
        "hidden": hidden,
        "inter": inter,
        "active": active,
        "local": local,
        "matrices": experts.GATED - plain,
        "weight_width": np.full(len(rows), width),
        "width": np.full(len(rows), WIDTH),
        "highest": np.full(len(rows), experts.tallest(*bits)),
    }


def made(
    name: Name,
    dims: dict[str, Array],
    tiles: Mapping[int, Array],
    rows: "pandas.DataFrame",
    family: tuple[str, ...],
    form: Form = experts.FORM,
) -> RowGroup:
    """Group of rows, from columns and tiles of each height."""
    (*_, narrow), rates = WEIGHTS[name["dtype"]], gpu(name["gpu"]).flops_per_s
    arithmetic = next(each for each in ARITHMETIC[narrow] if each in rates)
    stated = [column for column in SPLIT if column in rows]
    alike = families(rows, family, stated, FEW)
    return group_of(name, form, experts.expert_dims(dims, tiles), rows, alike, arithmetic)
