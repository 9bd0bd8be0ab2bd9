"""Verdict of a simulation: load carried or not, SLO kept or not, and its confidence."""

from typing import Any, Final

from roofline.table import Result
from roofline.view.block import Block, Card, Verdict
from roofline.view.questions import grids_of
from roofline.view.text import amount, clean, interval, is_number
from roofline.view.words import heading, spoken, sure, unit_of, written

LATENCIES: Final = ("ttft_s", "tpot_s")
STATISTIC: Final = "p99"
"""Percentile of latencies without an SLO."""
MEANS: Final = ("throughput_tok_s", "saturation_requests_per_s", "usd_per_mtok")


def traffic_verdict(result: Result) -> Verdict:
    """Verdict of a simulation."""
    given, objectives = result.metadata, result.rows("objectives")
    chances = [row["chance"] for row in objectives if is_number(row.get("chance"))]
    carried, status = bool(given.get("stable", True)), "The load is carried"
    kept = not objectives or "met" not in given or bool(given["met"])
    if not carried:
        status = "The load is not carried: the queue grows without end"
    elif not kept:
        status = "The SLO is missed"
    elif objectives and "met" in given:
        likely = f"; {sure(min(chances))} sure" if chances else ""
        status = f"The load is carried and the SLO is kept{likely}"
    return Verdict(
        status,
        good=carried and kept,
        sentences=tuple(spoken(str(sentence)) for sentence in given.get("summary", ())),
        cards=(*_latencies(result, objectives), *_means(result)),
    )


def _latencies(result: Result, objectives: list[dict[str, Any]]) -> list[Card]:
    """A card of each latency, at the percentile of its objective."""
    found = []
    for row in result.rows("headline"):
        metric = str(row["metric"])
        stem = metric.removesuffix("_s")
        mine = [each for each in objectives if str(each["objective"]).startswith(f"{stem}_")]
        if metric not in LATENCIES and not mine:
            continue
        statistic = str(mine[0]["objective"]).removeprefix(f"{stem}_") if mine else STATISTIC
        if not is_number(row.get(statistic)):
            continue
        found.append(
            Card(
                clean(heading(f"{stem}_{statistic}")),
                amount(row[statistic], "s"),
                interval(row.get(f"{statistic}_low"), row.get(f"{statistic}_high"), "s"),
                (f"limit: {amount(mine[0]['limit_s'], 's')}",) if mine else (),
            )
        )
    return found


def _means(result: Result) -> list[Card]:
    rows = {str(row["metric"]): row for row in result.rows("throughput")}
    said = {"throughput_tok_s": "output tokens, all GPUs", "usd_per_mtok": "output tokens"}
    return [
        Card(
            heading(name),
            written(name, rows[name]["value"]),
            interval(rows[name].get("low"), rows[name].get("high"), unit_of(name)),
            (said.get(name, ""),),
        )
        for name in MEANS
        if name in rows and is_number(rows[name]["value"])
    ]


def build(result: Result) -> Block | None:
    """Section of the page."""
    headline = result.tables.get("headline")
    if headline is None or STATISTIC not in headline.columns:
        return None
    grids = grids_of(result, "objectives")
    return Block(10, "verdict", "Verdict", "answer.html", traffic_verdict(result), grids=grids)
