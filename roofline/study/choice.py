"""The best of some layouts, and why."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.layout import DEGREES, Layout
from roofline.cost.work import Array
from roofline.errors import LayoutError
from roofline.serving.asking import OBJECTIVES, Objective, one_of
from roofline.serving.workload import Workload
from roofline.study.layouts import Layouts, filled, price
from roofline.units import MILLION, SECONDS_PER_HOUR, show, show_binary, significant


@dataclass(frozen=True, slots=True)
class Choice:
    """A layout and why it was taken."""

    layout: Layout
    replicas: int
    reason: str


def ranked(priced: Layouts, objective: Objective) -> NDArray[np.intp]:
    """Layouts that fit, best first; among equals the simplest.

    Args:
        priced: Figures; filled for all but ``"latency"``.
        objective: ``"latency"``: arrival to last token of the batch that was asked for.
            ``"throughput"``: of all GPUs, each replica with as many sequences as fit. ``"cost"``:
            that of the devices in use.
    """
    one_of("objective", objective, OBJECTIVES)
    with np.errstate(divide="ignore"):
        value = {
            "latency": priced.latency_s,
            "throughput": -priced.filled_tok_s,
            "cost": priced.devices * priced.replicas / priced.filled_tok_s,
        }[objective]
    kinds = sum(
        (getattr(priced, name) > 1).astype(float) for name in (*DEGREES, "sequence_parallel")
    )
    order = np.lexsort((kinds, priced.devices * priced.replicas, _rounded(value)))
    return np.asarray(order[priced.fits[order]])


def _rounded(value: Array) -> Array:
    """To nine digits: layouts that differ in nothing but rounding are equal."""
    sizes = np.where(np.isfinite(value) & (value != 0), np.abs(value), 1.0)
    scale = 10.0 ** (np.floor(np.log10(sizes)) - 8)
    return np.asarray(np.rint(value / scale) * scale)


def choose(
    base: Deployment,
    workload: Workload,
    gpus: int,
    objective: Objective = "latency",
    utilization: float | None = None,
) -> Choice:
    """The best layout of a network on up to a number of GPUs.

    Raises:
        LayoutError: No layout is possible, or none fits.
    """
    one_of("objective", objective, OBJECTIVES)
    priced = price(base, workload, gpus, utilization)
    if objective != "latency":
        priced = filled(base, priced, workload, utilization)
    order = ranked(priced, objective)
    if not len(order):
        short = float(np.max(priced.free))
        raise LayoutError(
            f"none of {len(priced):,} layouts of {base.architecture.name} on {gpus} × "
            f"{base.node.gpu.name} fits: the best lacks {show_binary(-short)} on a device",
            hint="give more --gpus, a smaller --batch, or a smaller format (--weights, --kv)",
        )
    best = int(order[0])
    return Choice(
        priced.layout(best),
        int(priced.replicas[best]),
        reason(priced, order, objective, base.node.gpu.usd_per_hour),
    )


def reason(
    priced: Layouts, order: NDArray[np.intp], objective: Objective, usd_per_hour: float
) -> str:
    """Why the first of some layouts is the best one, in a sentence or two.

    Args:
        priced, order, objective: As `ranked` takes and gives them.
        usd_per_hour: Price of a device; 0 where none is assumed. [$/h]
    """
    best = int(order[0])
    layout, replicas = priced.layout(best), int(priced.replicas[best])
    what = {
        "latency": "the least latency",
        "throughput": "the highest throughput",
        "cost": "the lowest cost of a token" if usd_per_hour else "the highest throughput of a GPU",
    }[objective]

    def shown(number: int) -> str:
        return _shown(priced, number, objective, usd_per_hour)

    named = str(layout) + (f" in {replicas} replicas" if replicas > 1 else "")
    out = f"{named} has {what} of {len(order):,} layouts that fit: {shown(best)}"
    if objective != "latency":
        out += f" with {priced.largest[best]:,.0f} sequences in each replica"
    other = next((int(n) for n in order[1:] if _differs(priced, best, int(n))), None)
    if other is not None:
        passed = other != int(order[1])
        next_one = ", the next of other degrees," if passed else ""
        out += f"; {priced.layout(other)}{next_one} has {shown(other)}"
    idle = int(np.max(priced.devices * priced.replicas) - priced.devices[best] * replicas)
    if idle > 0:
        out += f"; {idle} GPUs stay idle"
    if objective != "latency":
        return f"{out}."
    return f"{out}. The interconnect takes {priced.wires[best]:.0%} of its {_step(priced, best)}."


def _step(priced: Layouts, number: int) -> str:
    return "decode step" if priced.tpot_s[number] else "time"


def _differs(priced: Layouts, one: int, other: int) -> bool:
    """Whether two layouts differ in more than the split of norms."""
    return any(getattr(priced, name)[one] != getattr(priced, name)[other] for name in DEGREES)


def _shown(priced: Layouts, number: int, objective: Objective, usd_per_hour: float) -> str:
    if objective == "latency":
        return show(float(priced.latency_s[number]), "s")
    rate = float(priced.filled_tok_s[number])
    used = float(priced.devices[number] * priced.replicas[number])
    if objective == "throughput":
        return f"{significant(rate)} tok/s"
    if not usd_per_hour:
        return f"{significant(rate / used)} tok/s/GPU"
    return f"{usd_per_hour / SECONDS_PER_HOUR * used / rate * MILLION:.3f} $/Mtok"
