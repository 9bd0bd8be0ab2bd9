"""How many GPUs a growing load takes, step by step."""

from dataclasses import dataclass
from typing import Any, Final

from roofline.report.figures import axis, colour, layout, linear_ticks, lines, note, rule, scatter
from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Block, Figure, Key
from roofline.view.questions import grids_of
from roofline.view.text import amount, label, plain

ORDER: Final = 64


@dataclass(frozen=True, slots=True)
class Step:
    """Rates that one deployment is the cheapest for. [request/s]"""

    low: float
    high: float
    gpus: int
    usd_per_hour: float | None
    shape: str


@dataclass(frozen=True, slots=True)
class RateFacts:
    """Steps in their order, and the rate that was planned for; None where nobody said. [1/s]"""

    steps: tuple[Step, ...]
    asked: float | None


def rate_facts(result: Result) -> RateFacts:
    """Steps of the load."""
    steps = tuple(
        Step(
            float(row["rate_from_per_s"]),
            float(row["rate_to_per_s"]),
            int(row["gpus"]),
            None if row["usd_per_hour"] is None else float(row["usd_per_hour"]),
            f"{row['gpu']}: {row['shape']}",
        )
        for row in result.tables["gpus_by_rate"].rows()
    )
    planned = list(result.tables.get("verdict", result.tables["gpus_by_rate"]).rows())
    asked = planned[0].get("rate_per_s") if planned else None
    return RateFacts(steps, None if asked is None else float(asked))


def draw_rates(facts: RateFacts) -> Figure:
    """GPUs against rate as a staircase."""
    x: list[float] = []
    y: list[int] = []
    told: list[str] = []
    for step in facts.steps:
        x += [step.low, step.high]
        y += [step.gpus, step.gpus]
        price = "" if step.usd_per_hour is None else f", {amount(step.usd_per_hour, '$')} an hour"
        upto = f"up to {plain(step.high)} requests/s"
        told += [lines([f"{counted(step.gpus, 'GPU')}{price}", upto, label(step.shape, 48)])] * 2
    most = max(y)
    figure: dict[str, Any] = layout(300)
    figure["margin"] |= {"t": 24}
    figure["xaxis"] = axis(
        "Load [requests/s]", range=[0, max(x) * 1.02], **linear_ticks(max(x), "")
    )
    figure["yaxis"] = axis("GPUs", range=[0, most * 1.12], **linear_ticks(most, ""))
    if facts.asked is not None and facts.asked <= max(x):
        figure["shapes"] = [rule(facts.asked, "ink")]
        figure["annotations"] = [
            note(
                f"planned: {plain(facts.asked)} requests/s",
                facts.asked,
                1,
                yref="paper",
                yanchor="bottom",
                xanchor="left" if facts.asked < max(x) / 2 else "right",
            )
        ]
    look = {"line": {"color": colour("prefill"), "width": 2}, "fill": "tozeroy"}
    look |= {"marker": {"size": 6, "color": colour("prefill")}}
    look |= {"fillcolor": colour("prefill", 0.12)}
    curve = scatter(x, y, told, "lines+markers", **look)
    first, last = facts.steps[0], facts.steps[-1]
    return Figure(
        "gpus-by-rate",
        "GPUs against load, promises and headroom kept",
        f"From {counted(first.gpus, 'GPU')} for up to {plain(first.high)} requests a second to "
        f"{last.gpus:,} for up to {plain(last.high)}, in {counted(len(facts.steps), 'step')}.",
        {"data": [curve], "layout": figure},
        (Key("cheapest deployment that carries the load", "prefill"),),
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    if not len(result.tables.get("gpus_by_rate", ())):
        return None
    facts = rate_facts(result)
    grids = grids_of(result, "gpus_by_rate")
    return Block("rates", "If traffic grows", "figures.html", None, (draw_rates(facts),), grids)
