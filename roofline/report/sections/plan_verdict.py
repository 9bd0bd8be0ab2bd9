"""Verdict of a plan: GPUs, price, whether the SLO holds, and how likely that is."""

from dataclasses import dataclass
from typing import Any, Final

from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Block
from roofline.view.questions import grids_of
from roofline.view.text import Amount, amount, between, clean, is_number
from roofline.view.words import heading, spoken, sure, written

ORDER: Final = 10

NUMBERS: Final = ("gpus", "usd_per_hour", "usd_per_mtok", "ttft_s", "tpot_s", "headroom")
DEPLOYED: Final = (
    *("gpu", "shape", "mode", "weights", "kv", "max_sequences", "token_budget"),
    *("rate_per_s", "capacity_per_s", "saturation_per_s", "utilisation"),
)
"""What else is known of the deployment."""
TABLES: Final = ("objectives", "confidences", "relaxations")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the card; the interval where there is one."""

    name: str
    value: Amount
    interval: Amount | None
    said: str


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What whoever signs the bill takes away."""

    fits: bool
    """Whether a deployment keeps the SLO."""
    met: bool | None
    """Whether the SLO held in simulation; None where there is none."""
    likely: str
    """Probability that all of it holds, in words; empty where none is known."""
    bought: str
    """How many GPUs, and their price."""
    sentences: tuple[str, ...]
    figures: tuple[Figure, ...]
    deployed: tuple[tuple[str, str], ...]
    """Names and values of what else is known of the deployment."""


def plan_facts(result: Result) -> PlanFacts:
    """Verdict of a plan."""
    given, rows = result.metadata, list(result.tables["verdict"].rows())
    best: dict[str, Any] = rows[0] if rows else {}
    chance = best.get("probability")
    return PlanFacts(
        fits=bool(rows),
        met=bool(best["slo_met"]) if "slo_met" in best and _promised(result) else None,
        likely=sure(float(chance)) if is_number(chance) else "",
        bought=_bought(best) if best else "",
        sentences=tuple(spoken(str(sentence)) for sentence in given.get("summary", ())),
        figures=tuple(
            _figure(name, best, result) for name in NUMBERS if best.get(name) is not None
        ),
        deployed=tuple(
            (clean(heading(name)), str(written(name, best[name])))
            for name in DEPLOYED
            if best.get(name) not in ("", None)
        ),
    )


def _bought(row: dict[str, Any]) -> str:
    number, price = row["gpus"], row.get("usd_per_hour")
    paid = f" at {amount(price, '$')} an hour" if price else ""
    return f"{counted(number, 'GPU')}{paid}"


def _promised(result: Result) -> bool:
    return len(result.tables.get("objectives", ())) > 0


def _figure(name: str, row: dict[str, Any], result: Result) -> Figure:
    stem = name.removesuffix("_s")
    low, high = row.get(f"{stem}_low_s"), row.get(f"{stem}_high_s")
    wide = between(low, high, "s") if is_number(low) and is_number(high) and low < high else None
    statistic = str(result.metadata.get(f"{stem}_statistic") or "")
    said = {
        "gpus": f"{row.get('gpu', '')}, {row.get('shape', '')}, {row.get('weights', '')} weights",
        "usd_per_hour": "all GPUs",
        "usd_per_mtok": "output tokens, at the planned load",
        "ttft_s": _promise(statistic, result),
        "tpot_s": _promise(statistic, result),
        "headroom": _end(str(row.get("binds") or "")),
    }
    return Figure(
        clean(heading(statistic or name)),
        written(name, row[name]),
        wide,
        said.get(name, ""),
    )


def _promise(statistic: str, result: Result) -> str:
    """The limit of a statistic; empty where none was promised."""
    limits = result.tables.get("objectives")
    rows = [] if limits is None else [r for r in limits.rows() if r["objective"] == statistic]
    return f"limit: {amount(rows[0]['limit_s'], 's')}" if rows else ""


def _end(binds: str) -> str:
    """What happens when a load grows beyond what is carried."""
    if not binds:
        return ""
    return "then queues grow" if binds == "rate" else f"then {heading(binds)} breaks"


def build(result: Result) -> Block | None:
    """Section of the page."""
    if "verdict" not in result.tables:
        return None
    facts = plan_facts(result)
    names = TABLES if facts.fits else (*TABLES, "candidates")
    grids = [grid for name in names for grid in grids_of(result, name)]
    return Block("verdict", "Verdict", "plan_verdict.html", facts, grids=tuple(grids))
