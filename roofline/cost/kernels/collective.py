"""Calibrated time of a collective: a few algorithms, and the library takes the fastest.

Each algorithm is a start, messages that follow one another, and bytes over the link. Small
payloads are bound by the first two and go the short way; large ones by the third and go the way
that moves least. Constants come from `roofline.bench.fit`; as a form the same equation has
a residual table and an interval too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.work import Array, Number
from roofline.errors import InputError

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


@dataclass(frozen=True, slots=True)
class Regime:
    """Constants of one algorithm."""

    path: str
    """Algorithm, a key of `PATHS` under the operation."""
    start: float
    """Time that does not depend on ranks or payload: launch, synchronisation. [s]"""
    message: float
    """Time of each message that follows another. [s]"""
    efficiency: float
    """Achieved share of the link's published rate. [1]"""


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of one operation of one library on one machine.

    Raises:
        InputError: An unknown operation or algorithm, no algorithm, or a constant outside `BOUNDS`.
    """

    op: str
    """Operation, a key of `PATHS`."""
    regimes: tuple[Regime, ...]
    """Algorithms the library chooses from."""
    sharpness: float = 16.0
    """Exponent q of the soft minimum; the larger, the sharper. [1]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if not self.regimes or any(r.path not in PATHS.get(self.op, {}) for r in self.regimes):
            known = "; ".join(f"{op}: {', '.join(paths)}" for op, paths in PATHS.items())
            raise InputError(
                f"{self.op!r} by {[r.path for r in self.regimes]} is no collective known here",
                hint=f"known are {known}",
            )
        values = [("sharpness", self.sharpness)] + [
            (name, getattr(regime, name))
            for regime in self.regimes
            for name in ("start", "message", "efficiency")
        ]
        for name, value in values:
            low, high = BOUNDS[name]
            if not low <= value <= high:
                raise InputError(
                    f"{name} = {value:g} of {self.op} is outside what is physical",
                    hint=f"give a value from {low:g} to {high:g}",
                )


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


def by_regime(
    payload: Number,
    ranks: Number,
    bytes_per_s: Number,
    constants: Constants,
    *,
    in_switch: bool | NDArray[np.bool_] = False,
) -> Array:
    """Time of each regime alone, stacked along a first axis; infinite where it cannot be taken.

    Arguments as of `seconds`. The regime a payload falls into is ``by_regime(...).argmin(0)``.
    """
    times = []
    for regime in constants.regimes:
        messages, share = moved(constants.op, regime.path, ranks)
        wire = share * payload / (regime.efficiency * bytes_per_s)
        time = regime.start + regime.message * messages + wire
        times.append(np.where(usable(regime.path, ranks, in_switch), time, np.inf))
    return np.stack(np.broadcast_arrays(*times))


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


def seconds(
    payload: Number,
    ranks: Number,
    bytes_per_s: Number,
    constants: Constants,
    *,
    in_switch: bool | NDArray[np.bool_] = False,
) -> Number:
    """Time of a collective. [s]

    ``soft minimum over regimes of start + message·messages(n) + share(n)·payload/(e·rate)``.
    Contention with other traffic is left out. Source: start and slope per algorithm as in NCCL
    ``src/graph/tuning.cc``; the bytes of each algorithm as cited in `PATHS`.

    Args:
        payload: Tensor, whole, as `PATHS` defines it. [B]
        ranks: Devices n. One has nobody to talk to and takes no time. [1]
        bytes_per_s: Published rate of a device's link in one direction. [B/s]
        constants: Of the operation, library and machine.
        in_switch: Whether the switch can add this type of number: floats on NVSwitch since Hopper.

    Examples:
        One regime is plain alpha-beta: 4 µs, 6 messages of 1 µs, 1.5 tensors at half of 200 GB/s.

        >>> ring = Constants("all_reduce", (Regime("ring", 4e-6, 1e-6, 0.5),))
        >>> f"{float(seconds(2e6, 4.0, 2e11, ring)):.2e}"
        '4.00e-05'
    """
    times = by_regime(payload, ranks, bytes_per_s, constants, in_switch=in_switch)
    return np.where(np.asarray(ranks) > 1, soft_minimum(times, constants.sharpness), 0.0)


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
"""Algorithms of engines with kernels of their own, which leave large tensors to NCCL."""
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
    """Constants of the form as one record."""
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
        payload, ranks: As in `seconds`.
        bytes_per_s: Published rate of a device's link, or of a node's network, in one direction.
            [B/s]
        in_switch: 1 where the switch can add this type of number, else 0. [1]
    """
    columns = {"payload": payload, "ranks": ranks}
    return {**columns, "bytes_per_s": bytes_per_s, "in_switch": in_switch}


def form(op: str, paths: Sequence[str]) -> Form:
    """Form of an operation of a library that chooses among these algorithms.

    Source: start and slope per algorithm as in NCCL ``src/graph/tuning.cc``.

    Args:
        op, paths: Keys of `PATHS`.
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
