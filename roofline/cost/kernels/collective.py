"""Calibrated time of a collective as a form, so that it has a residual table and an interval too.

The equation is that of `roofline.cost.regimes`: algorithms, and softly the fastest of them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.regimes import BOUNDS, IN_SWITCH, Constants, Regime, moved, soft_minimum, usable
from roofline.cost.work import Array

KIND: Final = "collective"
EQUATION: Final = (
    "(least over algorithms of start + message·messages + bytes / (efficiency·W)) · exp(residual)"
)
NCCL: Final[Mapping[str, tuple[str, ...]]] = {
    "all_reduce": ("chain", "ring", "ring", IN_SWITCH),
    "all_gather": ("ring",) * 3,
    "reduce_scatter": ("ring",) * 3,
    "all_to_all": ("direct",) * 3,
    "send_recv": ("direct",) * 3,
}
"""Algorithms by operation; a path that repeats is one per protocol (LL, LL128, Simple)."""
CUSTOM: Final[Mapping[str, tuple[str, ...]]] = {
    "all_reduce": ("one-shot", "two-shot", "ring", IN_SWITCH),
}
"""Of engines with kernels of their own, which leave large tensors to NCCL."""
FEW_NCCL: Final[Mapping[str, tuple[str, ...]]] = {
    op: (paths[0], "ring") if op == "all_reduce" else paths[:2] for op, paths in NCCL.items()
}
"""The shortest way and the widest, where rows are too few to tell what is between them apart."""
FEW_CUSTOM: Final[Mapping[str, tuple[str, ...]]] = {"all_reduce": CUSTOM["all_reduce"][:2]}
HOP_S: Final = 6e-7
"""A message of a ring, where the rows cannot tell: NVLink, LL, in NCCL ``src/graph/tuning.cc``."""
STORE_S: Final = 1e-7
"""A flag stored to one more peer, where the rows cannot tell; assumed."""
STARTS_S: Final = (5e-6, 1.5e-5, 4.5e-5)
"""Starts, from the shortest way to the widest, where the rows cannot tell; assumed, after 6.6 µs
and 14 µs of NCCL's table."""
EFFICIENCIES: Final = (0.25, 0.5, 0.75)
"""The same of efficiencies; assumed, after the LL protocol's quarter to half."""
SHARPNESS: Final = 8.0
SHOTS: Final = ("one-shot", "two-shot")
"""Algorithms whose messages are stores."""
MEANINGS: Final[Mapping[str, str]] = {
    "start": "launch and synchronisation of",
    "message": "each message that follows another in",
    "efficiency": "share of the link's rate of",
}


def prior(what: str, place: int, path: str) -> float:
    """Value of a constant where the rows cannot tell; seconds, or a share.

    Args:
        what: ``"start"``, ``"message"`` or ``"efficiency"``.
        place: Of the algorithm, from the shortest way to the widest. [1]
        path: The algorithm.
    """
    order = min(place, len(STARTS_S) - 1)
    if what == "message":
        return STORE_S if path in SHOTS else HOP_S
    return STARTS_S[order] if what == "start" else EFFICIENCIES[order]


def known(op: str, paths: Sequence[str], values: Values) -> Constants:
    """Constants of the form as those of `roofline.cost.regimes`."""
    return Constants(
        op,
        tuple(
            Regime(path, *(values[f"{what}_{place}"] for what in MEANINGS))
            for place, path in enumerate(paths)
        ),
        values["sharpness"],
    )


def collective_dims(
    payload: Array, ranks: Array, bytes_per_s: Array, in_switch: Array
) -> dict[str, Array]:
    """Columns of the form.

    Args:
        payload: Tensor, whole, as `roofline.cost.regimes.PATHS` defines it. [B]
        ranks: Devices. [1]
        bytes_per_s: Published rate of a device's link, or of a node's network, in one direction.
            [B/s]
        in_switch: 1 where the switch can add this type of number, else 0. [1]
    """
    return {
        "payload": payload,
        "ranks": ranks,
        "bytes_per_s": bytes_per_s,
        "in_switch": in_switch,
    }


def form(op: str, paths: Sequence[str]) -> Form:
    """Form of an operation of a library that chooses among these algorithms.

    Source: start and slope per algorithm as in NCCL ``src/graph/tuning.cc``.

    Args:
        op, paths: Keys of `roofline.cost.regimes.PATHS`.
    """
    units = {"start": "s", "message": "s", "efficiency": "1"}
    constants = [
        Constant(
            f"{what}_{place}",
            *BOUNDS[what],
            prior(what, place, path),
            units[what],
            f"{MEANINGS[what]} {path}",
        )
        for what in MEANINGS
        for place, path in enumerate(paths)
    ]
    sharpness = Constant(
        "sharpness", *BOUNDS["sharpness"], SHARPNESS, "1", "exponent of the soft minimum"
    )

    def each(dims: Dims, values: Values) -> list[Array]:
        """Time of every algorithm, of none that the ranks or the switch rule out."""
        times = []
        for place, path in enumerate(paths):
            messages, share = moved(op, path, dims["ranks"])
            start, message, efficiency = (values[f"{what}_{place}"] for what in MEANINGS)
            wire = share * dims["payload"] / dims["bytes_per_s"] / efficiency
            can = usable(path, dims["ranks"], dims["in_switch"] > 0.0)
            times.append(np.where(can, start + message * messages + wire, np.inf))
        return times

    def seconds(dims: Dims, machine: Machine, values: Values) -> Array:
        return soft_minimum(np.stack(each(dims, values)), values["sharpness"])

    def regime(dims: Dims, machine: Machine, values: Values) -> Regimes:
        """Fastest algorithm, by its place."""
        return np.asarray(np.stack(each(dims, values)).argmin(axis=0))

    return Form(KIND, (*constants, sharpness), seconds, ("payload", "ranks"), regime, EQUATION)
