"""Verdict of a plan: GPUs, price, whether the SLO holds, and how likely that is."""

from typing import Any, Final

from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Block, Card, Verdict
from roofline.view.questions import grids_of
from roofline.view.text import amount, clean, interval, is_number
from roofline.view.words import heading, spoken, sure, written

NUMBERS: Final = ("gpus", "usd_per_hour", "usd_per_mtok", "ttft_s", "tpot_s", "headroom")
DEPLOYED: Final = (
    *("gpu", "shape", "mode", "weights", "kv", "max_sequences", "token_budget"),
    *("rate_per_s", "capacity_per_s", "saturation_per_s", "utilisation"),
)
"""Further settings and rates of the deployment."""
TABLES: Final = ("objectives", "confidences", "relaxations")


def plan_verdict(result: Result) -> Verdict:
    """Verdict of a plan."""
    rows = result.rows("verdict")
    sentences = tuple(spoken(str(sentence)) for sentence in result.metadata.get("summary", ()))
    if not rows:
        return Verdict("Nothing fits", good=False, sentences=sentences)
    best, chance = rows[0], rows[0].get("probability")
    met = bool(best["slo_met"]) if "slo_met" in best and result.rows("objectives") else None
    likely = f"; {sure(float(chance))} likely" if is_number(chance) and met is not None else ""
    held = "The SLO does not hold in simulation" if met is False else "The SLO holds on"
    carried = "The load is carried by" if met is None else held
    return Verdict(
        f"{carried}{'' if met is False else f' {_bought(best)}'}{likely}",
        good=met is not False,
        sentences=sentences,
        cards=tuple(_card(name, best, result) for name in NUMBERS if best.get(name) is not None),
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


def _card(name: str, row: dict[str, Any], result: Result) -> Card:
    stem = name.removesuffix("_s")
    wide = interval(row.get(f"{stem}_low_s"), row.get(f"{stem}_high_s"), "s")
    statistic = str(result.metadata.get(f"{stem}_statistic") or "")
    binds = str(row.get("binds") or "")
    broken = "queues grow" if binds == "rate" else f"{heading(binds)} breaks"
    said = {
        "gpus": f"{row.get('gpu', '')}, {row.get('shape', '')}, {row.get('weights', '')} weights",
        "usd_per_hour": "all GPUs",
        "usd_per_mtok": "output tokens, at the planned load",
        "ttft_s": _limit(statistic, result),
        "tpot_s": _limit(statistic, result),
        "headroom": f"then {broken}" if binds else "",
    }
    return Card(
        clean(heading(statistic or name)),
        written(name, row[name]),
        wide,
        (said.get(name, ""),),
    )


def _limit(statistic: str, result: Result) -> str:
    """The limit of a statistic; empty where there is none."""
    rows = [row for row in result.rows("objectives") if row["objective"] == statistic]
    return f"limit: {amount(rows[0]['limit_s'], 's')}" if rows else ""


def build(result: Result) -> Block | None:
    """Section of the page."""
    if "verdict" not in result.tables:
        return None
    names = TABLES if len(result.tables["verdict"]) else (*TABLES, "candidates")
    grids = tuple(grid for name in names for grid in grids_of(result, name))
    return Block(10, "verdict", "Verdict", "answer.html", plan_verdict(result), grids=grids)
