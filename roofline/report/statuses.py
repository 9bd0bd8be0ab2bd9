"""Answers of questions in a line: which layout is best, what pools carry, what drafting gains."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from roofline.table import Result
from roofline.units import counted, significant
from roofline.view.block import Card
from roofline.view.text import clean, interval, is_number
from roofline.view.words import written

OBJECTIVES: Final[Mapping[str, tuple[str, str, str]]] = {
    "latency": ("Least latency", "latency_s", "answers soonest"),
    "throughput": ("Most from each GPU", "filled_tok_s_per_gpu", "serves most"),
    "cost": ("Least cost per Mtok", "filled_usd_per_mtok", "costs least"),
}
"""Objectives of layouts: name of the card, its figure, and what the best one does."""


def spoken_layout(name: object) -> str:
    """Layout as people write it, in parts that do not break.

    >>> spoken_layout("tp2-pp4").replace("\N{NO-BREAK SPACE}", "_")
    'TP_2 × PP_4'
    """
    parts = clean(name).split("-")
    return " × ".join(part.rstrip("0123456789").upper() + _degree(part) for part in parts)


def _degree(part: str) -> str:
    digits = part[len(part.rstrip("0123456789")) :]
    return f"\N{NO-BREAK SPACE}{digits}" if digits else ""


def best_layouts(result: Result) -> dict[str, str]:
    """Layout that is best for each objective that is known."""
    return {str(row["objective"]): str(row["layout"]) for row in result.rows("best")}


def layouts_status(result: Result) -> str:
    """Layouts that are best, each once."""
    said: dict[str, list[str]] = {}
    for objective, layout in best_layouts(result).items():
        if objective in OBJECTIVES:
            said.setdefault(layout, []).append(OBJECTIVES[objective][2])
    parts = [f"{spoken_layout(layout)} {' and '.join(does)}" for layout, does in said.items()]
    return "; ".join(parts)


def pools_status(result: Result) -> str:
    """Requests that pools carry, and which of them sets the pace."""
    pools = result.rows("pools")
    if len(pools) != 2 or not all(is_number(row.get("requests_per_s")) for row in pools):
        return ""
    found = {row["what"]: row["value"] for row in result.rows("transfer")}
    slower = min(pools, key=lambda row: row["requests_per_s"])
    rate, pace = slower["requests_per_s"], f"{slower['pool']} sets the pace"
    if is_number(used := found.get("utilisation")) and used > 1:
        rate, pace = rate / used, "the interconnect sets the pace"
    first, rest = (counted(row["instances"], f"{row['pool']} instance") for row in pools)
    gpus = counted(sum(row["instances"] * row["gpus"] for row in pools), "GPU")
    return f"{first} and {rest} on {gpus} carry {significant(rate)} requests/s: {pace}"


def drafting_status(result: Result) -> str:
    """Speed-up by drafting."""
    for row in result.rows("headline"):
        if row["metric"] == "speed_up" and is_number(row["value"]):
            loss = "" if row["value"] > 1 else ": a loss"
            return f"{row['value']:.2f} × as fast with drafts{loss}"
    return ""


STATUSES: Final[Mapping[str, Callable[[Result], str]]] = {
    "layouts": layouts_status,
    "disaggregate": pools_status,
    "speculate": drafting_status,
}
"""Answer in a line, by kind of result; others say whether the deployment fits."""


def layout_cards(result: Result) -> tuple[Card, ...]:
    """A card for each objective: the figure of the best layout."""
    rows = {str(row["layout"]): row for row in result.rows("layouts")}
    cards = []
    for objective, layout in best_layouts(result).items():
        row: Mapping[str, Any] = rows.get(layout, {})
        title, name, _ = OBJECTIVES.get(objective, ("", "", ""))
        if not is_number(row.get(name)):
            continue
        held = result.metadata.get("batch") if objective == "latency" else row.get("largest_batch")
        when = "at" if objective == "latency" else "full with"
        what = f", {when} {counted(int(held), 'sequence')}" if is_number(held) else ""
        cards.append(
            Card(
                title,
                written(name, row[name]),
                interval(row.get(f"{name}_low"), row.get(f"{name}_high"), "s"),
                (spoken_layout(layout), f"{counted(row['replicas'], 'replica')}{what}"),
            )
        )
    return tuple(cards)
