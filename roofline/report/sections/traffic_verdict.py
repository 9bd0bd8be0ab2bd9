"""What a simulation answers: whether the load is carried, promises kept, and how sure that is."""

from dataclasses import dataclass
from typing import Any, Final

from roofline.report.sections.plan_verdict import Figure
from roofline.table import Result
from roofline.view.block import Block
from roofline.view.questions import grids_of
from roofline.view.text import Amount, amount, between, clean, is_number
from roofline.view.words import heading, spoken, sure, unit_of, written

ORDER: Final = 10
LATENCIES: Final = ("ttft_s", "tpot_s")
STATISTIC: Final = "p99"
"""Of the latencies that nothing was promised about."""
MEANS: Final = ("throughput_tok_s", "saturation_requests_per_s", "usd_per_mtok")


@dataclass(frozen=True, slots=True)
class TrafficFacts:
    """What a reader takes away."""

    stable: bool
    """Whether the load is carried."""
    met: bool | None
    """Whether all promises are kept; None where there are none."""
    sure: str
    """Probability of the least sure promise, in words; empty where nobody can say."""
    sentences: tuple[str, ...]
    figures: tuple[Figure, ...]


def traffic_facts(result: Result) -> TrafficFacts:
    """Verdict of a simulation."""
    given = result.metadata
    promises = _rows(result, "objectives")
    chances = [row["chance"] for row in promises if is_number(row.get("chance"))]
    return TrafficFacts(
        stable=bool(given.get("stable", True)),
        met=bool(given["met"]) if promises and "met" in given else None,
        sure=sure(min(chances)) if chances else "",
        sentences=tuple(spoken(str(sentence)) for sentence in given.get("summary", ())),
        figures=(*_latencies(result, promises), *_means(result)),
    )


def _rows(result: Result, name: str) -> list[dict[str, Any]]:
    return list(result.tables[name].rows()) if name in result.tables else []


def _latencies(result: Result, promises: list[dict[str, Any]]) -> list[Figure]:
    """A card of each latency, at the percentile that was promised."""
    found = []
    for row in _rows(result, "headline"):
        metric = str(row["metric"])
        stem = metric.removesuffix("_s")
        mine = [each for each in promises if str(each["objective"]).startswith(f"{stem}_")]
        if metric not in LATENCIES and not mine:
            continue
        statistic = str(mine[0]["objective"]).removeprefix(f"{stem}_") if mine else STATISTIC
        if not is_number(row.get(statistic)):
            continue
        found.append(
            Figure(
                clean(heading(f"{stem}_{statistic}")),
                amount(row[statistic], "s"),
                _interval(row.get(f"{statistic}_low"), row.get(f"{statistic}_high"), "s"),
                f"promised: {amount(mine[0]['limit_s'], 's')}" if mine else "",
            )
        )
    return found


def _means(result: Result) -> list[Figure]:
    rows = {str(row["metric"]): row for row in _rows(result, "throughput")}
    said = {"throughput_tok_s": "output tokens, all GPUs", "usd_per_mtok": "output tokens"}
    return [
        Figure(
            heading(name),
            written(name, rows[name]["value"]),
            _interval(rows[name].get("low"), rows[name].get("high"), unit_of(name)),
            said.get(name, ""),
        )
        for name in MEANS
        if name in rows and is_number(rows[name]["value"])
    ]


def _interval(low: object, high: object, unit: str) -> Amount | None:
    known = is_number(low) and is_number(high) and low < high
    return between(float(str(low)), float(str(high)), unit) if known else None


def build(result: Result) -> Block | None:
    """Section of the page."""
    headline = result.tables.get("headline")
    if headline is None or STATISTIC not in headline.columns:
        return None
    grids = grids_of(result, "objectives")
    return Block("verdict", "Verdict", "traffic_verdict.html", traffic_facts(result), grids=grids)
