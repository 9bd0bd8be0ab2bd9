"""Number of GPUs for a growing load, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.report.figures import colour, layout, linear_axis, lines, note, rule, scatter
from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Block, Figure, Key
from roofline.view.questions import grids_of
from roofline.view.text import amount, label, plain


def draw_rates(steps: Sequence[Mapping[str, Any]], asked: float | None) -> Figure:
    """GPUs against rate as a staircase, and the rate that was planned for. [request/s]"""
    x: list[float] = []
    y: list[int] = []
    told: list[str] = []
    for step in steps:
        x += [step["rate_from_per_s"], step["rate_to_per_s"]]
        y += [step["gpus"]] * 2
        price, shape = step["usd_per_hour"], label(f"{step['gpu']}: {step['shape']}", 48)
        paid = "" if price is None else f", {amount(price, '$')} an hour"
        upto = f"up to {plain(step['rate_to_per_s'])} requests/s"
        told += [lines([f"{counted(step['gpus'], 'GPU')}{paid}", upto, shape])] * 2
    most = max(y)
    figure: dict[str, Any] = layout(300)
    figure["margin"] |= {"t": 24}
    figure["xaxis"] = linear_axis("Load [requests/s]", "", max(x) * 1.02, max(x))
    figure["yaxis"] = linear_axis("GPUs", "", most * 1.12, most)
    if asked is not None and asked <= max(x):
        figure["shapes"] = [rule(asked, "ink")]
        figure["annotations"] = [
            note(
                f"planned: {plain(asked)} requests/s",
                asked,
                1,
                yref="paper",
                yanchor="bottom",
                xanchor="left" if asked < max(x) / 2 else "right",
            )
        ]
    look = {"line": {"color": colour("prefill"), "width": 2}, "fill": "tozeroy"}
    look |= {"marker": {"size": 6, "color": colour("prefill")}}
    look |= {"fillcolor": colour("prefill", 0.12)}
    curve = scatter(x, y, told, "lines+markers", **look)
    first, last = (f"{plain(step['rate_to_per_s'])}" for step in (steps[0], steps[-1]))
    return Figure(
        "gpus-by-rate",
        "GPUs against load, SLO and headroom kept",
        f"From {counted(steps[0]['gpus'], 'GPU')} for up to {first} requests a second to "
        f"{steps[-1]['gpus']:,} for up to {last}, in {counted(len(steps), 'step')}.",
        {"data": [curve], "layout": figure},
        (Key("cheapest deployment that carries the load", "prefill"),),
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    steps = result.rows("gpus_by_rate")
    if not steps:
        return None
    planned = (result.rows("verdict") or [{}])[0]
    figures = (draw_rates(steps, planned.get("rate_per_s")),)
    grids = grids_of(result, "gpus_by_rate")
    return Block(15, "rates", "If traffic grows", "figures.html", None, figures, grids)
