"""The best of some layouts, and why."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.work import Array
from roofline.errors import LayoutError
from roofline.serving.asking import one_of
from roofline.serving.workload import Workload
from roofline.study.layouts import DEGREES, Layouts, price
from roofline.units import show, show_binary

Objective = Literal["latency", "throughput", "cost"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("latency", "throughput", "cost")


@dataclass(frozen=True, slots=True)
class Choice:
    """A layout and why it was taken."""

    layout: Layout
    replicas: int
    reason: str


def ranked(priced: Layouts, objective: Objective) -> NDArray[np.intp]:
    """Layouts that fit, best first; among equals the simplest.

    Parameters
    ----------
    priced
        Figures.
    objective
        ``"latency"``: arrival to last token. ``"throughput"``: of all GPUs. ``"cost"``: of the
        devices in use.
    """
    one_of("objective", objective, OBJECTIVES)
    value = {
        "latency": priced.latency_s,
        "throughput": -priced.throughput_tok_s,
        # Without a price the devices themselves are the cost.
        "cost": priced.devices * priced.replicas / priced.throughput_tok_s,
    }[objective]
    kinds = sum(
        (getattr(priced, name) > 1).astype(float) for name in (*DEGREES, "sequence_parallel")
    )
    order = np.lexsort((kinds, priced.devices * priced.replicas, _rounded(value)))
    return np.asarray(order[priced.fits[order]])


def _rounded(value: Array) -> Array:
    """To nine digits: layouts that differ in nothing but rounding are equal."""
    scale = 10.0 ** (np.floor(np.log10(np.abs(value))) - 8)
    return np.asarray(np.rint(value / scale) * scale)


def choose(
    base: Deployment,
    workload: Workload,
    gpus: int,
    objective: Objective = "latency",
    utilization: float | None = None,
) -> Choice:
    """The best layout of a network on up to a number of GPUs.

    Parameters
    ----------
    base, workload, gpus, utilization
        As for `price`.
    objective
        As for `ranked`.

    Raises
    ------
    LayoutError
        No layout is possible, or none fits.
    """
    one_of("objective", objective, OBJECTIVES)
    priced = price(base, workload, gpus, utilization)
    order = ranked(priced, objective)
    if not len(order):
        short = float(np.max(priced.free))
        raise LayoutError(
            f"none of {len(priced):,} layouts of {base.architecture.name} on {gpus} × "
            f"{base.node.gpu.name} fits: the best lacks {show_binary(-short)} on a device",
            hint="give more --gpus, a smaller --batch, or a smaller format (--weights, --kv)",
        )
    best = int(order[0])
    return Choice(priced.layout(best), int(priced.replicas[best]), reason(priced, order, objective))


def reason(priced: Layouts, order: NDArray[np.intp], objective: Objective) -> str:
    """Why the first of some layouts is the best one, one sentence."""
    best = int(order[0])
    layout, replicas = priced.layout(best), int(priced.replicas[best])
    what = {
        "latency": "the least latency",
        "throughput": "the highest throughput",
        "cost": "the lowest cost of a token",
    }[objective]
    named = str(layout) + (f" in {replicas} replicas" if replicas > 1 else "")
    out = (
        f"{named} has {what} of {len(order):,} layouts that fit: {_shown(priced, best, objective)}"
    )
    other = next((int(n) for n in order[1:] if _differs(priced, best, int(n))), None)
    if other is not None:
        out += f"; {priced.layout(other)} has {_shown(priced, other, objective)}"
    idle = int(np.max(priced.devices * priced.replicas) - priced.devices[best] * replicas)
    if idle > 0:
        out += f"; {idle} GPUs stay idle"
    return f"{out}. Wires take {priced.wires[best]:.0%} of its decode step."


def _differs(priced: Layouts, one: int, other: int) -> bool:
    """Whether two layouts differ in more than the split of norms."""
    return any(getattr(priced, name)[one] != getattr(priced, name)[other] for name in DEGREES)


def _shown(priced: Layouts, number: int, objective: Objective) -> str:
    if objective == "latency":
        return show(float(priced.latency_s[number]), "s")
    if objective == "throughput" or not priced.usd_per_mtok[number]:
        used = float(priced.devices[number] * priced.replicas[number])
        rate = float(priced.throughput_tok_s[number])
        return (
            f"{rate:,.0f} tok/s" if objective == "throughput" else f"{rate / used:,.0f} tok/s/GPU"
        )
    return f"{priced.usd_per_mtok[number]:.3f} $/Mtok"
