"""A plan's answer: how many of what, at what price, whether promises hold, and how sure."""

from dataclasses import dataclass
from typing import Any, Final

from roofline.report.block import Block, Grid
from roofline.report.sections.others import grid, listing
from roofline.report.text import Amount, between, is_number, percent
from roofline.report.words import heading, written
from roofline.table import Result

ORDER: Final = 10

NUMBERS: Final = ("gpus", "usd_per_hour", "usd_per_mtok", "ttft_s", "tpot_s", "headroom")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the card; the interval where there is one."""

    name: str
    value: Amount
    interval: Amount | None
    said: str


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What whoever signs the bill takes away.

    Attributes
    ----------
    fits
        Whether a deployment keeps all promises.
    met
        Whether promises held in simulation; None where none was made.
    sure
        Probability that they all hold, in words; empty where nobody can say.
    """

    fits: bool
    met: bool | None
    sure: str
    sentences: tuple[str, ...]
    figures: tuple[Figure, ...]


def plan_facts(result: Result) -> PlanFacts:
    """Verdict of a plan."""
    given, rows = result.metadata, list(result.tables["verdict"].rows())
    best: dict[str, Any] = rows[0] if rows else {}
    chance = best.get("probability")
    return PlanFacts(
        fits=bool(rows),
        met=bool(best["slo_met"]) if "slo_met" in best and _promised(result) else None,
        sure=percent(float(chance)) if is_number(chance) else "",
        sentences=tuple(str(sentence) for sentence in given.get("summary", ())),
        figures=tuple(_figure(name, best, given) for name in NUMBERS if best.get(name) is not None),
    )


def _promised(result: Result) -> bool:
    return len(result.tables.get("objectives", ())) > 0


def _figure(name: str, row: dict[str, Any], given: Any) -> Figure:
    stem = name.removesuffix("_s")
    low, high = row.get(f"{stem}_low_s"), row.get(f"{stem}_high_s")
    wide = between(low, high, "s") if is_number(low) and is_number(high) and low < high else None
    said = {
        "gpus": f"{row.get('gpu', '')}, {row.get('shape', '')}, {row.get('weights', '')} weights",
        "usd_per_mtok": "output tokens, at the planned load",
        "ttft_s": str(given.get("ttft_statistic", "")),
        "tpot_s": str(given.get("tpot_statistic", "")),
        "headroom": f"{row.get('binds', '')} breaks first" if row.get("binds") else "",
    }
    return Figure(
        heading(name),
        written(name, row[name]),
        wide,
        said.get(name, ""),
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    if "verdict" not in result.tables:
        return None
    grids: list[Grid] = []
    for name, title in (("objectives", "Promises, as simulated"), ("lifts", "What would lift it")):
        if len(result.tables.get(name, ())):
            grids.append(grid(name, title, result.tables[name]))
    if len(result.tables["verdict"]):
        grids.append(listing("deployment", "The deployment", result.tables["verdict"]))
    return Block("verdict", "Verdict", "plan_verdict.html", plan_facts(result), grids=tuple(grids))
