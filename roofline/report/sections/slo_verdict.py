"""Verdicts of a plan and of a simulation: is the load carried, is the SLO kept, at what price."""

from typing import Any, Final

from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Card, Section, Verdict
from roofline.view.questions import grids_of
from roofline.view.text import amount, clean, interval, is_number
from roofline.view.words import heading, spoken, sure, unit_of, written

NUMBERS: Final = ("gpus", "usd_per_hour", "usd_per_mtok", "ttft_s", "tpot_s", "headroom")
DEPLOYED: Final = (
    *("gpu", "shape", "mode", "weights", "kv", "max_sequences", "token_budget"),
    *("rate_per_s", "capacity_per_s", "saturation_per_s", "utilisation"),
)
"""Settings and rates of the recommended deployment, listed below the cards."""
TABLES: Final = ("objectives", "confidences", "relaxations")
LATENCIES: Final = ("ttft_s", "tpot_s")
STATISTIC: Final = "p99"
"""Percentile of latencies without an SLO."""
MEANS: Final = {
    "throughput_tok_s": "output tokens, all GPUs",
    "saturation_requests_per_s": "",
    "usd_per_mtok": "output tokens",
}
"""Means of a simulation that have a card, and the note under each."""


def plan_verdict(result: Result) -> Verdict:
    """Verdict of a plan."""
    rows = result.rows("verdict")
    if not rows:
        return Verdict("Nothing fits", good=False, sentences=_sentences(result))
    best, chance = rows[0], rows[0].get("probability")
    met = bool(best["slo_met"]) if "slo_met" in best and result.rows("objectives") else None
    paid = f" at {amount(best['usd_per_hour'], '$')} an hour" if best.get("usd_per_hour") else ""
    bought = f" {counted(best['gpus'], 'GPU')}{paid}"
    likely = f"; {sure(float(chance))} likely" if is_number(chance) and met is not None else ""
    held = "The SLO does not hold in simulation" if met is False else f"The SLO holds on{bought}"
    return Verdict(
        f"{f'The load is carried by{bought}' if met is None else held}{likely}",
        good=met is not False,
        sentences=_sentences(result),
        cards=tuple(_card(name, best, result) for name in NUMBERS if best.get(name) is not None),
        deployed=tuple(
            (clean(heading(name)), str(written(name, best[name])))
            for name in DEPLOYED
            if best.get(name) not in ("", None)
        ),
    )


def _sentences(result: Result) -> tuple[str, ...]:
    return tuple(spoken(str(sentence)) for sentence in result.metadata.get("summary", ()))


def _card(name: str, row: dict[str, Any], result: Result) -> Card:
    stem = name.removesuffix("_s")
    statistic = str(result.metadata.get(f"{stem}_statistic") or "")
    limits = [each for each in result.rows("objectives") if each["objective"] == statistic]
    binds = str(row.get("binds") or "")
    broken = "queues grow" if binds == "rate" else f"{heading(binds)} breaks"
    notes = {
        "gpus": f"{row.get('gpu', '')}, {row.get('shape', '')}, {row.get('weights', '')} weights",
        "usd_per_hour": "all GPUs",
        "usd_per_mtok": "output tokens, at the planned load",
        "headroom": f"then {broken}" if binds else "",
    }
    return Card(
        clean(heading(statistic or name)),
        written(name, row[name]),
        interval(row.get(f"{stem}_low_s"), row.get(f"{stem}_high_s"), "s"),
        (notes[name],) if name in notes else _limit(limits),
    )


def _limit(objectives: list[dict[str, Any]]) -> tuple[str, ...]:
    """Note of the limit of the first objective; nothing without one."""
    return tuple(f"limit: {amount(each['limit_s'], 's')}" for each in objectives[:1])


def traffic_verdict(result: Result) -> Verdict:
    """Verdict of a simulation."""
    given, objectives = result.metadata, result.rows("objectives")
    chances = [row["chance"] for row in objectives if is_number(row.get("chance"))]
    # Clients who wait for their answers overload nothing, and nothing is said of their load.
    carried, status = given.get("stable") is not False, "The load is carried"
    kept = not objectives or "met" not in given or bool(given["met"])
    if not carried:
        status = "The load is not carried: the queue grows without end"
    elif not kept:
        status = "The SLO is missed"
    elif objectives and "met" in given:
        likely = f"; {sure(min(chances))} sure" if chances else ""
        status = f"The load is carried and the SLO is kept{likely}"
    means = {str(row["metric"]): row for row in result.rows("throughput")}
    return Verdict(
        status,
        good=carried and kept,
        sentences=_sentences(result),
        cards=(
            *_latencies(result, objectives),
            *(
                Card(
                    heading(name),
                    written(name, means[name]["value"]),
                    interval(means[name].get("low"), means[name].get("high"), unit_of(name)),
                    (said,),
                )
                for name, said in MEANS.items()
                if name in means and is_number(means[name]["value"])
            ),
        ),
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
        if is_number(row.get(statistic)):
            found.append(
                Card(
                    clean(heading(f"{stem}_{statistic}")),
                    amount(row[statistic], "s"),
                    interval(row.get(f"{statistic}_low"), row.get(f"{statistic}_high"), "s"),
                    _limit(mine),
                )
            )
    return found


def build(result: Result) -> Section | None:
    """Section of the page."""
    headline = result.tables.get("headline")
    names: tuple[str, ...]
    if "verdict" in result.tables:
        verdict = plan_verdict(result)
        names = TABLES if len(result.tables["verdict"]) else (*TABLES, "candidates")
    elif headline is not None and STATISTIC in headline.columns:
        verdict, names = traffic_verdict(result), ("objectives",)
    else:
        return None
    grids = tuple(grid for name in names for grid in grids_of(result, name))
    return Section(10, "verdict", "Verdict", "answer.html", verdict, grids=grids)
