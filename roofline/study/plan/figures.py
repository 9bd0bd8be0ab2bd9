"""Options as rows: instances, cost, latencies."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from msgspec import Struct

from roofline.serving import price
from roofline.serving.objectives import Objective
from roofline.study.plan.confirm import SimulatedOption
from roofline.study.plan.option import Option
from roofline.units import show, significant

UNITS: Final = {
    "usd_per_hour": "$/h",
    "usd_per_mtok": "$",
    "rate_per_s": "request/s",
    "capacity_per_s": "request/s",
    "saturation_per_s": "request/s",
    "ttft_s": "s",
    "tpot_s": "s",
}
ROLES: Final = {"all": "", "prefill": "prefill ", "decode": "decode "}


class LatencyNames(Struct, frozen=True):
    """Names of the latencies by which options are compared: of objectives, where there are any."""

    ttft: str
    tpot: str


def named(objectives: Sequence[Objective]) -> LatencyNames:
    """The first objective of each metric, else the 99th percentile."""

    def first(metric: str) -> str:
        return next((each.name for each in objectives if each.metric == metric), f"{metric}_p99")

    return LatencyNames(first("ttft"), first("tpot"))


def shape(option: Option) -> str:
    """Layouts and instances: ``"tp4 × 2"``, ``"prefill tp4 × 1 + decode tp2 × 2"``."""
    apart = len({pool.kind.gpu for pool in option.pools}) > 1
    return " + ".join(
        f"{ROLES[pool.role]}{pool.candidate.spelled} × {pool.instances}"
        + (f" on {pool.kind.gpu}" if apart else "")
        for pool in option.pools
    )


def usd_per_mtok(option: Option, output: float) -> float | None:
    """Price of a million output tokens at a mean answer [token]; None where none is known. [$]"""
    if not option.usd_per_hour:
        return None
    return price.usd_per_mtok(option.usd_per_hour, 1.0, option.rate * output)


def deployment(option: Option, output: float) -> dict[str, Any]:
    """Columns of what an option is made of, and of its cost; devices of both pools if unlike."""
    first, last = option.pools[0], option.pools[-1]
    return {
        "gpu": " + ".join(dict.fromkeys(pool.kind.gpu for pool in option.pools)),
        "gpus": option.gpus,
        "shape": shape(option),
        "mode": option.mode,
        "layout": first.candidate.spelled,
        "instances": first.instances,
        "decode_layout": last.candidate.spelled if option.wires else "",
        "decode_instances": last.instances if option.wires else 0,
        "weights": " + ".join(dict.fromkeys(pool.kind.weights for pool in option.pools)),
        "kv": first.kind.kv,
        "max_sequences": last.server.max_sequences,
        "token_budget": first.server.token_budget,
        "usd_per_hour": option.usd_per_hour or None,
        "usd_per_mtok": usd_per_mtok(option, output),
    }


BRIEF: Final = ("gpus", "usd_per_hour", "usd_per_mtok", "gpu", "weights", "shape", "token_budget")


def brief(option: Option | None, output: float) -> dict[str, Any]:
    """Columns of an option in few words, empty where there is none."""
    if option is None:
        return dict.fromkeys(BRIEF) | dict.fromkeys(("gpu", "weights", "shape"), "")
    columns = deployment(option, output)
    return {name: columns[name] for name in BRIEF}


def load(option: Option, names: LatencyNames) -> dict[str, Any]:
    """Columns of what an option carries, and of its latencies at the load by its curves."""
    return {
        "rate_per_s": option.rate,
        "capacity_per_s": option.capacity,
        "headroom": max(option.headroom, 0.0),
        "saturation_per_s": option.saturation,
        "binds": option.binds,
        "ttft_s": option.seconds(names.ttft),
        "tpot_s": option.seconds(names.tpot),
    }


def differences(
    base: SimulatedOption, other: SimulatedOption, names: LatencyNames
) -> tuple[str, str]:
    """Figures that another option gives up beside the base, and those it gains, in words."""
    worse: list[str] = []
    better: list[str] = []

    def add(what: str, old: float, new: float, text: str, less: bool = True) -> None:
        if abs(new - old) <= NEAR * max(abs(old), abs(new)):
            return
        (worse if (new > old) == less else better).append(f"{what} {text}")

    cost, more = base.option.usd_per_hour, other.option.usd_per_hour
    if cost and more:
        add("$/h", cost, more, f"{cost:,.2f} → {more:,.2f} ({_change(cost, more)})")
    had, has = base.option.gpus, other.option.gpus
    add("GPUs", had, has, f"{had} → {has}")
    for name in (names.ttft, names.tpot):
        old, new = (each.seconds(name).kept.value_s for each in (base, other))
        add(name, old, new, f"{show(old, 's')} → {show(new, 's')} ({_change(old, new)})")
    old, new = base.option.capacity, other.option.capacity
    add("carries", old, new, f"{significant(old)} → {significant(new)} req/s", less=False)
    return "; ".join(worse), "; ".join(better)


NEAR: Final = 0.01
"""Share by which figures may differ and still be called the same."""


def _change(old: float, new: float) -> str:
    return f"{new / old - 1:+.0%}" if old and isfinite(new) else "from nothing"


def simulated(done: SimulatedOption, output: float, names: LatencyNames) -> dict[str, Any]:
    """An option as a row, with latencies as simulated."""
    return {
        **deployment(done.option, output),
        **load(done.option, names),
        "ttft_s": done.seconds(names.ttft).kept.value_s,
        "tpot_s": done.seconds(names.tpot).kept.value_s,
    }


def verdict(done: SimulatedOption, output: float, names: LatencyNames) -> dict[str, Any]:
    """The recommended deployment as a row."""
    ttft, tpot = done.seconds(names.ttft), done.seconds(names.tpot)
    return {
        **simulated(done, output, names),
        "ttft_low_s": ttft.low_s,
        "ttft_high_s": ttft.high_s,
        "tpot_low_s": tpot.low_s,
        "tpot_high_s": tpot.high_s,
        "utilisation": done.utilisation,
        "slo_met": done.met,
        "probability": done.probability,
    }
