"""Tables of a plan, as they are printed and as JSON and reports carry them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roofline.study.plan import figures
from roofline.study.plan.choose import RunnerUp
from roofline.study.plan.confirm import SimulatedOption
from roofline.study.plan.curve import SATURATION
from roofline.study.plan.figures import LatencyNames
from roofline.study.plan.option import Option, Pool
from roofline.study.plan.plan import Plan
from roofline.study.plan.relaxations import Relaxation
from roofline.study.plan.sensitivity import InputSensitivity, PreferredRange, changed
from roofline.study.plan.tabled import key_of
from roofline.table import Table, table
from roofline.units import significant

UNITS: Final = {
    **figures.UNITS,
    **dict.fromkeys(("ttft_low_s", "ttft_high_s", "tpot_low_s", "tpot_high_s"), "s"),
}
COST: Final = {"usd_per_hour": "$/h", "usd_per_mtok": "$"}
DOES: Final = {"all": "serves", "prefill": "prefills", "decode": "decodes"}


def verdict(plan: Plan, names: LatencyNames, basis: str) -> Table:
    """The recommended deployment; no row where nothing fits."""
    found = () if plan.best is None else (plan.best,)
    rows = [figures.verdict(done, plan.demand.output, names) for done in found]
    return table(rows, UNITS, basis)


def objectives(done: SimulatedOption | None, limited: int, basis: str) -> Table:
    """Objectives of the recommended deployment, as simulated."""
    units = dict.fromkeys(("limit_s", "value_s", "low_s", "high_s"), "s")
    rows = []
    for each in () if done is None else done.objectives[:limited]:
        limit, value = each.kept.objective.limit_s, each.kept.value_s
        rows.append(
            {
                "objective": each.kept.objective.name,
                "limit_s": limit,
                "value_s": value,
                "low_s": each.low_s,
                "high_s": each.high_s,
                "margin": 1.0 - value / limit,
                "attainment": each.kept.attainment,
                "met": each.kept.met,
                "probability": each.probability,
            }
        )
    return table(rows, units, basis)


def confidences(plan: Plan, every: Mapping[float, Option | None]) -> Table:
    """Preferred deployments by the probability that all limits hold, and what they cost."""
    rows = [
        {
            "confidence": confidence,
            **figures.brief(option, plan.demand.output),
            "asked": confidence == plan.goal.confidence,
        }
        for confidence, option in every.items()
    ]
    return table(rows, COST, "assumed")


def frontier(
    plan: Plan,
    points: Sequence[tuple[SimulatedOption, tuple[str, ...]]],
    names: LatencyNames,
    basis: str,
) -> Table:
    """Deployments that nothing cheaper beats in some aim, as simulated."""
    best = None if plan.best is None else plan.best.option
    rows = [
        {
            **figures.simulated(done, plan.demand.output, names),
            "best_in": ", ".join(aims),
            "chosen": best is not None and done.option.same(best),
        }
        for done, aims in points
    ]
    return table(rows, UNITS, basis)


def runners_up(plan: Plan, every: Sequence[RunnerUp], names: LatencyNames, basis: str) -> Table:
    """Other deployments that keep all limits, and what each gives up beside the best."""
    rows: list[dict[str, Any]] = []
    for each in every:
        assert plan.best is not None, "others beside nothing"
        base, option = plan.best.option, each.done.option
        worse, better = figures.differences(plan.best, each.done, names)
        rows.append(
            {
                "why": each.why,
                **figures.simulated(each.done, plan.demand.output, names),
                "extra_usd_per_hour": option.usd_per_hour - base.usd_per_hour,
                "extra_gpus": option.gpus - base.gpus,
                "gives_up": worse,
                "gains": better,
            }
        )
    return table(rows, {**UNITS, "extra_usd_per_hour": "$/h"}, basis)


def bounds(plan: Plan, bounded: Plan, names: LatencyNames) -> Table:
    """The cheapest of each kind at published rates, by its curve: what it costs at least."""
    cheapest: dict[str, Option] = {}
    for option in sorted((*bounded.found.options, *bounded.pooled), key=bounded.question.order):
        cheapest.setdefault(option.kind.name, option)
    rows = [
        {**figures.deployment(option, plan.demand.output), **figures.load(option, names)}
        for option in cheapest.values()
    ]
    return table(rows, UNITS, "datasheet")


def candidates(plan: Plan, basis: str) -> Table:
    """Every layout of every kind, the chosen first: its bounds, and what became of it."""
    rows = _candidates(plan)
    if plan.bounds is not None:
        rows += [
            {**row, "status": "dropped" if row["status"] == "dropped" else "bound"}
            for row in _candidates(plan.bounds)
        ]
    order = ("chosen", "enough", "short", "bound", "dropped")
    rows.sort(key=lambda r: (order.index(r["status"]), r["usd_per_hour"] or r["gpus"] or 0.0))
    units = {
        "tpot_floor_s": "s",
        "ttft_floor_s": "s",
        "bound_per_s": "request/s",
        "capacity_per_s": "request/s",
        "usd_per_hour": "$/h",
    }
    return table(rows, units, basis)


def _candidates(plan: Plan) -> list[dict[str, Any]]:
    sized = {key_of(o.pools[0].candidate): o for o in (*plan.found.options, *plan.found.short)}
    best = () if plan.best is None else plan.best.option.pools
    chosen = {key_of(pool.candidate): pool for pool in best}
    rows: list[dict[str, Any]] = []
    for each in plan.candidates:
        key = key_of(each)
        option = sized.get(key)
        if key in chosen:
            # What the layout has in what is recommended, where it may do one phase only.
            pool = chosen[key]
            option = Option((pool,), plan.demand.rate)
            status, reason = "chosen", f"{DOES[pool.role]} in {pool.instances}; {_bound(pool)}"
        else:
            enough = any(option is one for one in plan.found.options)
            status = "dropped" if option is None else "enough" if enough else "short"
            reason = plan.found.dropped.get(key) or _said(plan, option)
        fits, demand = each.estimate is not None, plan.question.demand
        first = [one for one in plan.tables.probes if one.metric == "ttft"]
        rows.append(
            {
                "gpu": each.kind.gpu,
                "weights": each.kind.weights,
                "kv": each.kind.kv,
                "layout": each.spelled,
                "devices": each.devices,
                "status": status,
                "reason": reason,
                "sequences": each.sequences,
                "tpot_floor_s": each.floor_s(demand) if fits else None,
                "ttft_floor_s": min((each.first_s(demand, one) for one in first), default=None)
                if fits
                else None,
                "bound_per_s": each.bound(demand, plan.goal.objectives) if fits else 0.0,
                "capacity_per_s": None if option is None else option.capacity,
                "replicas": None if option is None else option.pools[0].instances,
                "gpus": None if option is None else option.gpus,
                "usd_per_hour": (option.usd_per_hour or None) if option else None,
            }
        )
    return rows


def _bound(pool: Pool) -> str:
    """Limit that is in the way of more load on an instance, in words."""
    what = "saturation" if pool.binds == SATURATION else pool.binds
    return f"{what} limits each to {significant(pool.carries)} requests/s"


def _said(plan: Plan, option: Option | None) -> str:
    """Verdict on a layout that was tabulated, in words."""
    if option is None:
        return ""
    if option.capacity <= 0:
        return f"{option.binds}: above its limit however low the load"
    if not plan.question.allowed(option):
        return f"rate: {option.gpus} GPUs, {plan.goal.most(option.kind.gpu)} are allowed"
    return _bound(option.pools[0])


def sensitivity(plan: Plan, bars: Sequence[InputSensitivity]) -> Table:
    """Every input lower and higher, and what is then the best."""
    rows = []
    for bar in bars:
        row: dict[str, Any] = {"what": bar.what, "low": bar.said[0], "high": bar.said[1]}
        base = figures.brief(bar.base, plan.demand.output)
        row |= {f"{name}_base": base[name] for name in ("usd_per_hour", "usd_per_mtok", "gpus")}
        for end, option, output, prices in zip(
            ("low", "high"), (bar.low, bar.high), bar.outputs, bar.prices, strict=True
        ):
            cell = figures.brief(option, output) | {"changes": changed(option, bar.base)}
            if option is not None and option.usd_per_hour:
                # At the price that was assumed there.
                paid = option.cost(prices)
                cell["usd_per_hour"] = paid
                cell["usd_per_mtok"] *= paid / option.usd_per_hour
            row |= {f"{name}_{end}": value for name, value in cell.items()}
        rows.append(row)
    ends = ("base", "low", "high")
    units = {f"{name}_{end}": unit for name, unit in reversed(COST.items()) for end in ends}
    return table(rows, units, "assumed")


def gpus_by_rate(plan: Plan, every: Sequence[PreferredRange]) -> Table:
    """Steps of the rate, and what is the cheapest on each."""
    rate = plan.demand.rate
    rows = [
        {
            "rate_from_per_s": each.low,
            "rate_to_per_s": each.high,
            **figures.brief(each.option, plan.demand.output),
            "asked": each.low < rate <= each.high,
        }
        for each in every
    ]
    units = dict.fromkeys(("rate_from_per_s", "rate_to_per_s"), "request/s")
    return table(rows, units | COST, "assumed")


def relaxations(plan: Plan, every: Sequence[Relaxation]) -> Table:
    """Relaxations where nothing fits."""
    rows = [
        {"change": each.change, "asked": each.asked, **figures.brief(each.option, each.output)}
        for each in every
    ]
    return table(rows, COST, "assumed")
