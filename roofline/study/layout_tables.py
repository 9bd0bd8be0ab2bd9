"""Layouts as a result: what the command line prints and JSON carries."""

from collections.abc import Sequence
from math import exp, isfinite
from typing import Any, Final, Literal

import numpy as np

import roofline
from roofline.cost.deployment import Deployment
from roofline.serving.static import CENTRAL
from roofline.serving.steady_columns import SteadyColumns
from roofline.serving.workload import Workload
from roofline.study.choice import OBJECTIVES, Objective, ranked, reason
from roofline.study.layouts import MANY, Layouts, filled, price
from roofline.study.steady_layouts import steady_layouts
from roofline.table import Result, table
from roofline.units import MILLION, SECONDS_PER_HOUR, show_binary

__all__ = ["Objective", "layouts"]

UNITS: Final = {
    "weight_bytes": "B",
    "kv_bytes": "B",
    "memory_bytes": "B",
    "free_bytes": "B",
    "ttft_idle_s": "s",
    "tpot_steady_s": "s",
    "steady_tok_s": "token/s",
    "ttft_s": "s",
    "tpot_s": "s",
    "latency_s": "s",
    **dict.fromkeys(
        (f"{name}_{end}" for name in ("ttft_s", "tpot_s", "latency_s") for end in ("low", "high")),
        "s",
    ),
    "throughput_tok_s": "token/s",
    "throughput_tok_s_per_gpu": "token/s",
    "usd_per_mtok": "$",
    "filled_tok_s_per_gpu": "token/s",
    "filled_usd_per_mtok": "$",
}

MEASURED: Final = (
    "Times are fits to measured kernels of the device, or of the one most like it; what was not "
    "measured, such as the interconnect of nodes, is at published rates and assumed latencies. "
    "Layouts are off together: their order is surer than each of them."
)
DATASHEET: Final = (
    "Times are the roofline at datasheet rates with perfect overlap inside an operator and "
    "assumed latencies of the interconnect: the least the hardware allows, for comparison."
)


def layouts(
    base: Deployment,
    workload: Workload,
    gpus: int,
    objective: Objective = "latency",
    utilization: float | None = None,
    rank: Literal["steady", "static"] = "steady",
) -> Result:
    """Tables of all layouts, best first.

    Parameters
    ----------
    base, workload, gpus, utilization
        As for `roofline.study.layouts.price`.
    objective
        What the order is by.
    rank
        Whether figures of a replica that is kept full are beside those of static batches; the
        order is the same, see `roofline.study.steady_layouts.steady_layouts`.

    Raises
    ------
    LayoutError
        No layout is possible.
    """
    priced = price(base, workload, gpus, utilization)
    if objective != "latency" or len(priced) <= MANY:
        priced = filled(base, priced, workload, utilization)
    lasting = None
    if rank == "steady" and workload.kv_cache and base.architecture.causal and workload.output > 1:
        lasting = steady_layouts(base, priced, workload)
    usd, calibrated = base.node.gpu.usd_per_hour, base.calibration is not None
    full = bool(np.all(np.isfinite(priced.largest)))
    known = [name for name in OBJECTIVES if full or name == "latency"]
    orders = {name: ranked(priced, name) for name in known}
    order = [int(number) for number in orders[objective]]
    placed = set(order)
    rest = [n for n in range(len(priced)) if n not in placed]
    rest.sort(key=lambda number: -float(priced.free[number]))
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
            "layouts": table(
                _rows(priced, [*order, *rest], usd, calibrated, lasting),
                UNITS,
                "interpolated" if calibrated else "assumed",
            ),
            "best": table(best, {"objective": "", "layout": "", "reason": ""} if not best else {}),
        },
        notes=(
            (
                f"TTFT is of one prompt on an idle server, TPOT and latency of {workload.batch} "
                "sequences in each replica that are kept full, the prompts of the others among the "
                "steps of an answer. Throughput is with as many sequences as fit, whatever latency "
                "that has."
                if lasting
                else f"TTFT, TPOT and latency are of a static batch of {workload.batch} in each "
                "replica; throughput is with as many sequences as fit, whatever latency that has."
            ),
            "`roofline analyze … --layout NAME` shows where the time of one goes.",
            MEASURED if calibrated else DATASHEET,
        ),
        metadata={
            "version": roofline.__version__,
            "model": base.architecture.name,
            "gpu": base.node.gpu.name,
            "gpu_title": base.node.gpu.title,
            "node": base.node.name,
            "gpus": gpus,
            "engine": base.engine.name,
            "weights": base.precision.weights.name,
            "kv": base.precision.kv.name,
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
    priced: Layouts, best: Sequence[dict[str, str]], order: list[int], objective: Objective
) -> tuple[str, ...]:
    """What a reader should take away."""
    if not order:
        short = show_binary(-float(priced.free.max()))
        return (f"None of {len(priced):,} layouts fits: the best lacks {short} on a device.",)
    first = next(row for row in best if row["objective"] == objective)
    others = {row["layout"]: row["reason"] for row in reversed(best)}  # throughput before cost
    others.pop(first["layout"], None)
    return (first["reason"], *reversed(others.values()))


def _rows(
    priced: Layouts,
    order: list[int],
    usd_per_hour: float,
    calibrated: bool,
    lasting: SteadyColumns | None,
) -> list[dict[str, Any]]:
    spreads = {
        "ttft_s": priced.ttft_log_sd,
        "tpot_s": priced.tpot_log_sd,
        "latency_s": priced.latency_log_sd,
    }

    def ends(number: int) -> dict[str, float]:
        out: dict[str, float] = {}
        for name, spread in spreads.items() if calibrated else ():
            value, wide = float(getattr(priced, name)[number]), exp(CENTRAL * spread[number])
            out |= {f"{name}_low": value / wide, f"{name}_high": value * wide}
        return out

    kept = {}
    if lasting is not None:
        kept = {
            "ttft_idle_s": lasting.ttft_idle_s,
            "tpot_steady_s": lasting.tpot_s,
            "steady_tok_s": lasting.output_tok_s,
        }

    def row(number: int) -> dict[str, Any]:
        layout, replicas = priced.layout(number), int(priced.replicas[number])
        used = replicas * int(layout.devices)
        rate, full = float(priced.throughput_tok_s[number]), float(priced.filled_tok_s[number])
        asked = isfinite(full)
        usd = usd_per_hour / SECONDS_PER_HOUR * used
        return {
            "layout": layout.spelled,
            "tp": int(layout.tp),
            "cp": int(layout.cp),
            "dp": int(layout.dp),
            "ep": int(layout.ep),
            "pp": layout.pp,
            "sequence_parallel": layout.sequence_parallel,
            "devices": int(layout.devices),
            "replicas": replicas,
            "gpus_used": used,
            "fits": bool(priced.fits[number]),
            "weight_bytes": float(priced.weights[number]),
            "kv_bytes": float(priced.kv[number]),
            "memory_bytes": float(priced.taken[number]),
            "free_bytes": float(priced.free[number]),
            **{name: float(np.asarray(column)[number]) for name, column in kept.items()},
            "ttft_s": float(priced.ttft_s[number]),
            "tpot_s": float(priced.tpot_s[number]),
            "latency_s": float(priced.latency_s[number]),
            **ends(number),
            "throughput_tok_s": rate,
            "throughput_tok_s_per_gpu": rate / used,
            "usd_per_mtok": usd / rate * MILLION if usd else None,
            "largest_batch": int(priced.largest[number]) if asked else None,
            "filled_tok_s_per_gpu": full / used if asked else None,
            "filled_usd_per_mtok": usd / full * MILLION if asked and usd and full else None,
            "wire_share": float(priced.wires[number]),
        }

    return [row(number) for number in order]
