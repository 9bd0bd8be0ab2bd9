"""Calibrated time of a collective: a few algorithms, and the library takes the fastest.

Each algorithm is a start, messages that follow one another, and bytes over the link. Small
payloads are bound by the first two and go the short way; large ones by the third and go the way
that moves least. Constants come from `roofline.bench.fit`; as a form the same equation has
a residual table and an interval too, which is interpolated in straight lines: between two measured
sizes the time is a start and a rate.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.form import Dims, Form, FormConstant, Machine, Regimes, Values
from roofline.cost.work import Array, Number

IN_SWITCH: Final = "in-switch"
PATHS: Final[Mapping[str, Mapping[str, Callable[[Array], tuple[Array, Array]]]]] = {
    "all_reduce": {
        "chain": lambda n: (2 * (n - 1), 2 * (n - 1)),
        "one-shot": lambda n: (n - 1, n - 1),
        "two-shot": lambda n: (2 * (n - 1), 2 * (n - 1) / n),
        "ring": lambda n: (2 * (n - 1), 2 * (n - 1) / n),
        IN_SWITCH: lambda n: (0 * n + 2, 1 + 1 / n),
    },
    "all_gather": {"ring": lambda n: (n - 1, (n - 1) / n)},
    "reduce_scatter": {"ring": lambda n: (n - 1, (n - 1) / n)},
    "all_to_all": {"direct": lambda n: (n - 1, (n - 1) / n)},
    "send_recv": {"direct": lambda n: (0 * n + 1, 0 * n + 1)},
}
"""Messages that follow one another, and bytes that each rank sends as a multiple of the payload,
by operation and algorithm, as functions of the ranks n.

The payload is what the operation leaves on a rank or takes from it, whichever is more: the tensor
of an all-reduce, the gathered tensor, the tensor before it is scattered, all that a rank sends in
an all-to-all (its own part included), the message of a send. It is the size that nccl-tests prints
(``doc/PERFORMANCE.md``).

chain
    The whole tensor is reduced from rank to rank and sent back, without a pipeline: what NCCL's
    tree is inside a node. NCCL ``src/graph/tuning.cc``.
one-shot
    Each rank writes its tensor to every other and reduces what it got.
two-shot
    Each rank reduces its 1/n of all tensors, then gives it to the others. One-shot and two-shot:
    TensorRT-LLM and vLLM custom all-reduce.
ring
    Reduce-scatter, then all-gather, 1/n of the tensor to one neighbour at a time (Patarasuk and
    Yuan 2009); either half alone is half of it. NCCL has three protocols on this path (LL, LL128,
    Simple), which differ in latency and in the share of the link rate.
in-switch
    The switch reads the tensor of every rank, adds, and the rank that owns a 1/n stores the sum
    once, which the switch copies to all: 1 + 1/n tensors in each direction of a link. The
    link rate bounds the payload rate at n/(n + 1), where a ring is bound at n/(2·(n − 1)): more
    than a ring can reach is legitimate, more than the link rate is not. Klenk et al. 2020, ISCA
    (in-network reduction on NVSwitch); NCCL calls it NVLS.
direct
    To every other rank 1/n of what is sent; a send is one message.
"""

BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "start": (1e-7, 1e-4),
    "message": (1e-8, 2e-5),
    "efficiency": (0.01, 1.0),
    "sharpness": (4.0, 16.0),
}
"""Bounds of the constants: start and message in seconds, from a store to a peer up to a slow
network; efficiency is of the link's published rate in one direction."""


def moved(op: str, path: str, ranks: Number) -> tuple[Array, Array]:
    """Messages that follow one another, and bytes sent by a rank per byte of payload.

    >>> messages, share = moved("all_reduce", "ring", 4.0)
    >>> float(messages), float(share)
    (6.0, 1.5)
    """
    return PATHS[op][path](np.asarray(ranks, dtype=np.float64))


def usable(path: str, ranks: Number, in_switch: bool | NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True where a library would take this algorithm; a switch saves nothing for two ranks."""
    ranks = np.asarray(ranks, dtype=np.float64)
    return (ranks > 2) & in_switch if path == IN_SWITCH else np.ones(ranks.shape, dtype=np.bool_)


def soft_minimum(times: Array, sharpness: float) -> Array:
    """``(Σ tᵢ^−q)^(−1/q)`` along the first axis.

    Never above the smallest of k times, never below ``k^(−1/q)`` of it, and it grows with each.

    >>> float(soft_minimum(np.array([3.0, np.inf]), 8.0))
    3.0
    """
    least = times.min(axis=0)
    total = ((times / least) ** -sharpness).sum(axis=0)
    softened: Array = least * total ** (-1.0 / sharpness)
    return softened


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
    "all_reduce": ("one-shot", "two-shot", "ring", IN_SWITCH)
}
"""Algorithms of engines with kernels of their own, which leave large tensors to NCCL."""
FEW_NCCL: Final[Mapping[str, tuple[str, ...]]] = {
    op: (paths[0], "ring", IN_SWITCH) if op == "all_reduce" else paths[:2]
    for op, paths in NCCL.items()
}
"""The shortest way and the widest, where rows are too few to tell those between apart."""
FEW_CUSTOM: Final[Mapping[str, tuple[str, ...]]] = {"all_reduce": CUSTOM["all_reduce"][:2]}
HOP_S: Final = 6e-7
"""Message of a ring where rows do not tell it: NVLink, LL, in NCCL ``src/graph/tuning.cc``."""
STORE_S: Final = 1e-7
"""Time to store a flag at one more peer where rows do not tell it; assumed."""
STARTS_S: Final = (5e-6, 1.5e-5, 4.5e-5)
"""Starts, from the shortest way to the widest, where rows do not tell them; assumed, after 6.6 µs
and 14 µs of NCCL's table."""
EFFICIENCIES: Final = (0.25, 0.5, 0.75)
"""Shares of the link's rate, likewise; assumed, after LL's quarter to half."""
SHARPNESS: Final = 8.0
SHOTS: Final = ("one-shot", "two-shot")
"""Algorithms whose messages are stores."""
MEANINGS: Final[Mapping[str, str]] = {
    "start": "launch and synchronisation of",
    "message": "each message that follows another in",
    "efficiency": "share of the link's rate of",
}


def prior(what: str, place: int, path: str) -> float:
    """Value of a constant where measured rows do not tell it; seconds, or a share.

    Args:
        what: ``"start"``, ``"message"`` or ``"efficiency"``.
        place: Of the algorithm, from the shortest way to the widest. [1]
        path: The algorithm.
    """
    order = min(place, len(STARTS_S) - 1)
    if what == "message":
        return STORE_S if path in SHOTS else HOP_S
    return STARTS_S[order] if what == "start" else EFFICIENCIES[order]


def collective_dims(
    payload: Array, ranks: Array, bytes_per_s: Array, in_switch: Array
) -> dict[str, Array]:
    """Columns of the form.

    Args:
        payload: Tensor, whole, as `PATHS` defines it. [B]
        ranks: Devices. [1]
        bytes_per_s: Published rate of a device's link, or of a node's network, in one direction.
            [B/s]
        in_switch: 1 where the switch can add this type of number, else 0. [1]
    """
    columns = {"payload": payload, "ranks": ranks}
    return {**columns, "bytes_per_s": bytes_per_s, "in_switch": in_switch}


def form(op: str, paths: Sequence[str]) -> Form:
    """Form of an operation of a library that chooses among these algorithms.

    Contention with other traffic is left out. Source: start and slope per algorithm as in NCCL
    ``src/graph/tuning.cc``; the bytes of each algorithm as cited in `PATHS`.

    Args:
        op, paths: Keys of `PATHS`.
    """
    units = {"start": "s", "message": "s", "efficiency": "1"}
    constants = [
        FormConstant(
            f"{what}_{place}",
            *BOUNDS[what],
            prior(what, place, path),
            units[what],
            f"{MEANINGS[what]} {path}",
        )
        for what in MEANINGS
        for place, path in enumerate(paths)
    ]
    sharpness = FormConstant(
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

    every, coordinates = (*constants, sharpness), ("payload", "ranks")
    return Form(KIND, every, seconds, coordinates, regime, EQUATION, lines=True)
