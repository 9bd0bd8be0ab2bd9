"""The best of some layouts, and why; and all of them as a result."""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.layout import DEGREES, Layout
from roofline.cost.measured import GROUNDS
from roofline.cost.work import Array
from roofline.errors import LayoutError, not_one_of
from roofline.serving.price import usd_per_mtok
from roofline.serving.static import CENTRAL
from roofline.serving.workload import Workload
from roofline.study.layouts import MANY, LayoutFigures, filled, price
from roofline.table import Column, Result, Table, table, units_of
from roofline.units import dollars, show, show_binary, significant

Objective = Literal["latency", "throughput", "cost"]
OBJECTIVES: Final[tuple[Objective, ...]] = get_args(Objective)
"""Objectives that a layout is chosen for."""
STEADY: Final = ("ttft_idle_s", "tpot_steady_s", "steady_tok_s")
"""Figures of a server that is kept full."""
TIMES: Final = ("ttft_s", "tpot_s", "latency_s")
"""Figures that have an interval."""
MEASURED: Final = (
    "Times are {} of the device, or of the one most like it; what was not "
    "measured, such as the interconnect of nodes, is at published rates and assumed latencies. "
    "Layouts are off together: their order is surer than each of them."
)
DATASHEET: Final = (
    "Times are the roofline at datasheet rates with perfect overlap inside an operator and "
    "assumed latencies of the interconnect: the least the hardware allows, for comparison."
)


class LayoutChoice(Struct, frozen=True):
    """A layout and why it was taken."""

    layout: Layout
    replicas: int
    reason: str


def ranked(priced: LayoutFigures, objective: Objective) -> NDArray[np.intp]:
    """Layouts that fit, best first; among equals the simplest.

    Args:
        priced: Figures; filled for all but ``"latency"``.
        objective: ``"latency"``: arrival to last token of the batch that was asked for.
            ``"throughput"``: of all GPUs, each replica with as many sequences as fit. ``"cost"``:
            that of the devices in use.
    """
    if objective not in OBJECTIVES:
        raise not_one_of("objective", objective, OBJECTIVES)
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
    """Values to nine digits: layouts that differ in nothing but rounding are equal."""
    sizes = np.where(np.isfinite(value) & (value != 0), np.abs(value), 1.0)
    scale = 10.0 ** (np.floor(np.log10(sizes)) - 8)
    return np.asarray(np.rint(value / scale) * scale)


def choose(
    base: Deployment,
    workload: Workload,
    gpus: int,
    objective: Objective = "latency",
    utilization: float | None = None,
) -> LayoutChoice:
    """The best layout of a network on up to a number of GPUs; LayoutError where none fits."""
    priced = price(base, workload, gpus, utilization)
    if objective != "latency":
        priced = filled(base, priced, workload, utilization)
    order = ranked(priced, objective)
    if not len(order):
        short = float(np.max(priced.free))
        raise LayoutError(
            f"none of {len(priced):,} layouts of {base.architecture.name} on {gpus} × "
            f"{base.node.gpu.name} fits: the best lacks {show_binary(-short)} on a device",
            hint="give more `gpus`, a smaller `batch`, or a smaller format (`weights`, `kv`)",
        )
    best = int(order[0])
    return LayoutChoice(
        priced.layout(best),
        int(priced.replicas[best]),
        reason(priced, order, objective, base.node.gpu.usd_per_hour),
    )


def reason(
    priced: LayoutFigures, order: NDArray[np.intp], objective: Objective, usd_per_hour: float
) -> str:
    """Sentences on why the first of some layouts, ordered by `ranked`, is the best one.

    The price of a device is 0 where none is assumed. [$/h]
    """
    best = int(order[0])
    layout, replicas = priced.layout(best), int(priced.replicas[best])
    what = {
        "latency": "the least latency",
        "throughput": "the highest throughput",
        "cost": "the lowest cost of a token" if usd_per_hour else "the highest throughput of a GPU",
    }[objective]

    def shown(number: int) -> str:
        """The figure that layouts are ordered by."""
        if objective == "latency":
            return show(float(priced.latency_s[number]), "s")
        rate = float(priced.filled_tok_s[number])
        used = float(priced.devices[number] * priced.replicas[number])
        if objective == "throughput":
            return f"{significant(rate)} tok/s"
        if not usd_per_hour:
            return f"{significant(rate / used)} tok/s/GPU"
        return f"{dollars(usd_per_mtok(usd_per_hour * used, 1.0, rate))} per Mtok"

    named = str(layout) + (f" in {replicas} replicas" if replicas > 1 else "")
    out = f"{named} has {what} of {len(order):,} layouts that fit: {shown(best)}"
    if objective != "latency":
        out += f" with {priced.largest[best]:,.0f} sequences in each replica"
    # Layouts that differ in the split of norms alone are passed over.
    degrees = np.stack([getattr(priced, name) for name in DEGREES])
    unlike = np.any(degrees[:, order] != degrees[:, [best]], axis=0)
    other = next(iter(order[unlike].tolist()), None)
    if other is not None:
        passed = other != int(order[1])
        next_one = ", the next of other degrees," if passed else ""
        out += f"; {priced.layout(other)}{next_one} has {shown(other)}"
    idle = int(np.max(priced.devices * priced.replicas) - priced.devices[best] * replicas)
    if idle > 0:
        out += f"; {idle} GPUs stay idle"
    if objective != "latency":
        return f"{out}."
    step = "decode step" if priced.tpot_s[best] else "time"
    return f"{out}. The interconnect takes {priced.wires[best]:.0%} of its {step}."


def layouts(
    base: Deployment,
    workload: Workload,
    gpus: int,
    objective: Objective = "latency",
    utilization: float | None = None,
    rank: Literal["steady", "static"] = "steady",
) -> Result:
    """Tables of all layouts, best first; LayoutError where none is possible.

    Args:
        base, workload, gpus, utilization: As for `roofline.study.layouts.price`.
        objective: Objective of the order, which is that of static batches.
        rank: Figures beside those of static batches: of a replica that is kept full, or none.
    """
    priced = price(base, workload, gpus, utilization)
    if objective != "latency" or len(priced) <= MANY:
        priced = filled(base, priced, workload, utilization)
    steady = (
        rank == "steady" and workload.kv_cache and base.architecture.causal and workload.output > 1
    )
    usd, calibrated = base.node.gpu.usd_per_hour, base.calibration is not None
    full = bool(np.all(np.isfinite(priced.largest)))
    known = [name for name in OBJECTIVES if full or name == "latency"]
    orders = {name: ranked(priced, name) for name in known}
    order = [int(number) for number in orders[objective]]
    rest = np.setdiff1d(np.arange(len(priced)), order, assume_unique=True)
    rest = rest[np.argsort(-priced.free[rest], kind="stable")]
    best = [
        {
            "objective": name,
            "layout": priced.layout(int(found[0])).spelled,
            "reason": reason(priced, found, name, usd),
        }
        for name, found in orders.items()
        if len(found)
    ]
    return Result(
        kind="layouts",
        tables={
            "layouts": _table(
                priced, np.concatenate([order, rest]).astype(np.intp), usd, base.basis, steady
            ),
            "best": table(best, {"objective": "", "layout": "", "reason": ""} if not best else {}),
        },
        notes=(
            (
                f"TTFT is of one prompt on an idle server, TPOT and latency of {workload.batch} "
                "sequences in each replica that are kept full, the prompts of the others among the "
                "steps of an answer. Throughput is with as many sequences as fit, whatever latency "
                "that has."
                if steady
                else f"TTFT, TPOT and latency are of a static batch of {workload.batch} in each "
                "replica; throughput is with as many sequences as fit, whatever latency that has."
            ),
            "`roofline analyze … --layout NAME` shows where the time of one goes.",
            MEASURED.format(GROUNDS[base.basis]) if calibrated else DATASHEET,
        ),
        metadata={
            **{key: value for key, value in base.metadata.items() if key != "layout"},
            "node": base.node.name,
            "gpus": gpus,
            "batch": workload.batch,
            "prompt": workload.prompt,
            "output": workload.output,
            "objective": objective,
            "basis": "calibrated" if calibrated else "datasheet",
            "layouts": len(priced),
            "fitting": len(order),
            "fits": bool(order),
            "summary": _summary(priced, best, order, objective),
        },
    )


def _summary(
    priced: LayoutFigures, best: Sequence[dict[str, str]], order: list[int], objective: Objective
) -> tuple[str, ...]:
    """Sentences that a reader should take away."""
    if not order:
        short = show_binary(-float(priced.free.max()))
        return (f"None of {len(priced):,} layouts fits: the best lacks {short} on a device.",)
    first = next(row for row in best if row["objective"] == objective)
    others = {row["layout"]: row["reason"] for row in reversed(best)}  # throughput before cost
    others.pop(first["layout"], None)
    return (first["reason"], *reversed(others.values()))


def _table(
    priced: LayoutFigures, order: NDArray[np.intp], usd_per_hour: float, basis: str, steady: bool
) -> Table:
    """Layouts in an order, a row for each."""

    def figures(name: str) -> list[float]:
        values: list[float] = getattr(priced, name)[order].tolist()
        return values

    def whole(values: Array) -> list[int]:
        found: list[int] = values[order].astype(np.int64).tolist()
        return found

    def known(values: Array, there: bool) -> list[float | None]:
        return values[order].tolist() if there else [None] * len(order)

    used = priced.devices * priced.replicas
    rate, full = priced.throughput_tok_s, priced.filled_tok_s
    asked = bool(np.all(np.isfinite(full)))
    columns: dict[str, Sequence[Any]] = {
        "layout": priced.spelled(order),
        **{name: whole(getattr(priced, name)) for name in DEGREES},
        "sequence_parallel": priced.sequence_parallel[order].astype(bool).tolist(),
        "devices": whole(priced.devices),
        "replicas": whole(priced.replicas),
        "gpus_used": whole(used),
        "fits": priced.fits[order].tolist(),
        "weight_bytes": figures("weights"),
        "kv_bytes": figures("kv"),
        "memory_bytes": figures("taken"),
        "free_bytes": figures("free"),
    }
    if steady:
        columns |= {name: figures(name) for name in STEADY}
    columns |= {name: figures(name) for name in TIMES}
    for name in () if basis == "datasheet" else TIMES:
        value = getattr(priced, name)
        wide = np.exp(CENTRAL * getattr(priced, name.replace("_s", "_log_sd")))
        columns[f"{name}_low"] = (value / wide)[order].tolist()
        columns[f"{name}_high"] = (value * wide)[order].tolist()
    with np.errstate(divide="ignore", invalid="ignore"):
        columns |= {
            "throughput_tok_s": figures("throughput_tok_s"),
            "throughput_tok_s_per_gpu": (rate / used)[order].tolist(),
            "usd_per_mtok": known(usd_per_mtok(usd_per_hour * used, 1.0, rate), usd_per_hour > 0),
            "largest_batch": whole(priced.largest) if asked else known(full, there=False),
            "filled_tok_s_per_gpu": known(full / used, asked),
            "filled_usd_per_mtok": [
                each if rate else None
                for each, rate in zip(
                    known(usd_per_mtok(usd_per_hour * used, 1.0, full), asked and usd_per_hour > 0),
                    full[order],
                    strict=True,
                )
            ],
            "wire_share": figures("wires"),
        }
    basis = "assumed" if basis == "datasheet" else basis
    units = units_of(columns)
    return Table(
        {
            name: Column(tuple(values), units.get(name, ""), basis if name in units else "")
            for name, values in columns.items()
        }
    )
