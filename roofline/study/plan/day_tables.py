"""Tables, sentences, notes and assumptions of a deployment over a rate curve."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from roofline.cost.work import Array
from roofline.serving.result import known
from roofline.study.plan.day import AFTER, Day, DayFleet
from roofline.study.plan.figures import LatencyNames
from roofline.study.plan.option import ROUNDING
from roofline.study.plan.scaling import by_hours, reserve
from roofline.table import Table, table
from roofline.units import SECONDS_PER_HOUR, counted, dollars, show, significant


def fleets(day: Day) -> Table:
    """Fleets: device hours, cost, what to reserve, requests that come while replicas are short."""
    rows: list[dict[str, Any]] = []
    for each in day.fleets:
        _, gpus = each.gpus
        row = {
            "fleet": each.name,
            "least_gpus": int(gpus.min()),
            "most_gpus": int(gpus.max()),
            "gpu_hours_per_day": each.gpu_hours,
            "usd_per_day": each.usd_per_day or None,
        }
        if any(hours.pool.reserved_usd_per_hour is not None for hours in each.pools):
            kept = [reserve(hours) for hours in each.pools]
            row["reserved_gpus"] = sum(number for number, _ in kept)
            row["reserved_usd_per_day"] = sum(cost for _, cost in kept)
        rows.append(row | {"late_share": each.late.share})
    return table(rows, dict.fromkeys(("usd_per_day", "reserved_usd_per_day"), "$"), "assumed")


def by_hour(day: Day, names: LatencyNames) -> Table:
    """Rate, replicas and devices of the fleet that follows the load, by the hour.

    Hours one after the other that are alike are one row. Latencies are those of a steady load at
    the largest of a replica in the hour; none while it is more than all limits hold for.
    """
    fleet, period = day.follows, day.curve.period_s
    rates = by_hours(np.array(day.curve.starts_s), np.array(day.curve.rates), period)
    edges, gpus = fleet.gpus
    used = by_hours(edges, gpus, period) / SECONDS_PER_HOUR
    late_s = by_hours(
        fleet.late.starts_s,
        fleet.late.late / np.diff(np.append(fleet.late.starts_s, period)),
        period,
    )
    rows: list[dict[str, Any]] = []
    for hour, came in enumerate(rates):
        row = {
            "from_h": hour,
            "to_h": hour + 1,
            "rate_per_s": float(came) / SECONDS_PER_HOUR,
            **_replicas(fleet, hour),
            "gpu_hours": float(used[hour]),
            **_latencies(day, hour, names),
            "late_share": float(late_s[hour] / came) if came else 0.0,
        }
        if rows and _alike(rows[-1], row):
            rows[-1]["to_h"] = row["to_h"]
        else:
            rows.append(row)
    for row in rows:
        row["gpu_hours"] *= row["to_h"] - row["from_h"]
    units = {"from_h": "h", "to_h": "h", "rate_per_s": "request/s", "ttft_s": "s", "tpot_s": "s"}
    return table(rows, units, "assumed")


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True for hours that differ in their times alone."""
    return all(
        one[name] == value or (one[name] and value and math.isclose(one[name], value))
        for name, value in other.items()
        if name not in ("from_h", "to_h")
    )


def _replicas(fleet: DayFleet, hour: int) -> dict[str, Any]:
    """Most replicas that are paid for in an hour, of each pool. [1]"""
    roles = ("replicas",) if len(fleet.pools) == 1 else ("prefill_replicas", "decode_replicas")
    start = hour * SECONDS_PER_HOUR
    found: dict[str, Any] = {}
    for role, each in zip(roles, fleet.pools, strict=True):
        found[role] = int(_within(each.paid.starts_s, each.paid.values, start).max())
    return found


def _within(edges: Array, values: Array, start: float) -> Array:
    """Values that hold at some time of the hour from a start on. [s]"""
    first = int(np.searchsorted(edges, start, side="right")) - 1
    return values[first : int(np.searchsorted(edges, start + SECONDS_PER_HOUR))]


def _latencies(day: Day, hour: int, names: LatencyNames) -> dict[str, Any]:
    """Largest load of a replica in an hour over what it carries, and its latencies. [1] [s]"""
    curve, out = day.curve, {}
    shares: list[float] = []
    option_pools = (day.option.pools[0], day.option.pools[-1])
    pools = (day.follows.pools[0], day.follows.pools[-1])
    rate = [np.array(curve.starts_s), np.array(curve.rates)]
    for name, label, of, hours in zip(
        (names.ttft, names.tpot), ("ttft_s", "tpot_s"), option_pools, pools, strict=True
    ):
        edges = np.union1d(rate[0], hours.ready.starts_s)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.nan_to_num(curve.at(edges) / hours.ready.at(edges), posinf=np.inf)
        load = float(_within(edges, each, hour * SECONDS_PER_HOUR).max())
        shares.append(load / hours.pool.carries)
        fits = load <= hours.pool.carries * (1.0 + ROUNDING)
        out[label] = of.curve.at(name, load) if fits and load > 0 else None
    return {"load": max(shares) if math.isfinite(max(shares)) else None, **out}


def said(day: Day) -> str:
    """A sentence on what a fleet that follows the load takes and leaves."""
    still, moves = day.fleets[:2]
    spent, kept = moves.usd_per_day, still.usd_per_day
    cost = f", {dollars(spent)} of {dollars(kept)} on demand" if spent and kept else ""
    lacks = (
        f"; {moves.late.share:.2%} of the requests come while too few replicas serve"
        if moves.late.share
        else ""
    )
    text = (
        f"A fleet that follows the load takes {significant(moves.gpu_hours)} GPU hours a day of "
        f"{significant(still.gpu_hours)}{cost}{lacks}."
    )
    held = [reserve(each) for each in moves.pools]
    if any(each.pool.reserved_usd_per_hour is not None for each in moves.pools):
        number, total = (sum(each) for each in zip(*held, strict=True))
        text += f" With {number:,} of its GPUs reserved a day costs {dollars(total)}."
    cheaper = [
        each
        for each in day.fleets
        if each.name.endswith(AFTER)
        and bool(each.usd_per_day) == bool(spent)
        and each.late.share <= moves.late.share
        and (each.usd_per_day, each.gpu_hours) < (spent, moves.gpu_hours)
    ]
    if cheaper:
        cheapest = min(cheaper, key=lambda each: (each.usd_per_day, each.gpu_hours))
        name, hours = cheapest.name.removesuffix(AFTER), significant(cheapest.gpu_hours)
        text += (
            f" No cheaper at the peak, {name} follows the load for less: {hours} GPU hours a day."
        )
    return text


def notes(day: Day) -> tuple[str, ...]:
    """Conventions and omissions of the fleets."""
    tried = day.simulated
    held = f", and with {_listed(tried)} at the largest rate for so many" if tried else ""
    starts = "; ".join(dict.fromkeys(map(str, day.starts)))
    return (
        f"The deployment is chosen and simulated at the peak of the rate curve{held}. By the hour "
        "latencies are those of a steady load, by curves; what comes while too few replicas serve, "
        "or while others wait since then, is counted as outside the SLO. Other deployments follow "
        "the load by their curves alone.",
        f"A replica takes {starts}. That one fails to start, that none is to be had on demand, and "
        "that caches begin empty is left out.",
    )


def _listed(numbers: tuple[int, ...]) -> str:
    """Numbers of replicas in words."""
    text = ", ".join(map(str, numbers[:-1]))
    return f"{text} and {numbers[-1]} replicas" if text else counted(numbers[0], "replica")


def assumed(day: Day) -> list[dict[str, Any]]:
    """Rows of the assumptions: what a start takes, look-ahead and cool-down."""
    policy = day.policy
    rows = []
    for pool, start in zip(day.option.pools, day.starts, strict=True):
        source = "command" if not start.source else "vLLM issues 19824, 20264; arXiv 2401.14351"
        what = f"start of a replica of {pool.candidate.spelled}"
        rows.append(known(what, str(start), "assumed" if start.source else "given", source))
    ahead = "as long as a start" if policy.look_ahead_s is None else show(policy.look_ahead_s, "s")
    keeps = show(policy.cool_down_s, "s")
    value = f"ordered {ahead} before the load, kept {keeps} after it"
    note = "cool-down as in Kubernetes: scaleDown.stabilizationWindowSeconds of 300"
    return [*rows, known("replicas that follow the load", value, "assumed", "planner", note)]
