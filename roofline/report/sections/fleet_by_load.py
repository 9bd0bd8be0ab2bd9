"""GPUs by load: of a fleet that follows a rate curve, hour by hour, and of a growing load."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roofline.report.figures import colour, layout, linear_axis, lines, note, rule, scatter
from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Figure, Key, Section
from roofline.view.questions import grids_of
from roofline.view.text import amount, label, plain

UPPER, LOWER = (0.42, 1.0), (0.0, 0.3)
"""Heights of the two panels, over that of the figure. [1]"""


def draw_hours(hours: Sequence[Mapping[str, Any]], fixed: int) -> Figure:
    """GPUs that are paid for, on the mean of each hour, above the requests a second."""
    x: list[float] = []
    gpus: list[float] = []
    rates: list[float] = []
    told: list[str] = []
    for row in hours:
        lasts = row["to_h"] - row["from_h"]
        x += [row["from_h"], row["to_h"]]
        gpus += [row["gpu_hours"] / lasts] * 2
        rates += [row["rate_per_s"]] * 2
        span = f"{row['from_h']} h to {row['to_h']} h"
        paid = f"{plain(row['gpu_hours'] / lasts)} GPUs on the mean"
        told += [lines([span, paid, f"{plain(row['rate_per_s'])} requests/s"])] * 2
    end = max(x)
    figure: dict[str, Any] = layout(340)
    figure["xaxis"] = linear_axis("Time [h]", "", end, end)
    figure["xaxis"] |= {"anchor": "y2"}
    most = max(fixed, *gpus)
    figure["yaxis"] = linear_axis("GPUs", "", most * 1.15, most) | {"domain": UPPER}
    figure["yaxis2"] = linear_axis("Requests/s", "", max(rates) * 1.15, max(rates))
    figure["yaxis2"] |= {"domain": LOWER}
    figure["shapes"] = [rule(fixed, "ink", across=True) | {"xref": "paper"}]
    figure["annotations"] = [
        note(f"fixed for the peak: {fixed:,}", 0, fixed, xanchor="left", yanchor="bottom")
    ]
    above = {"line": {"color": colour("prefill"), "width": 2}, "fill": "tozeroy"}
    above |= {"fillcolor": colour("prefill", 0.12)}
    below = {"line": {"color": colour("decode"), "width": 2}, "yaxis": "y2"}
    total = sum(row["gpu_hours"] for row in hours)
    return Figure(
        "fleet-by-hour",
        "GPUs that follow the load, above the load",
        f"From {plain(min(gpus))} to {plain(max(gpus))} GPUs, {plain(total)} GPU hours in "
        f"{counted(int(end), 'hour')}; as many as at the peak would take {plain(fixed * end)}.",
        {
            "data": [
                scatter(x, gpus, told, "lines", **above),
                scatter(x, rates, told, "lines", **below),
            ],
            "layout": figure,
        },
        (
            Key("GPUs that are paid for, mean of the hour", "prefill"),
            Key("requests that come in a second", "decode"),
        ),
    )


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


def build(result: Result) -> Iterator[Section]:
    """Sections of the page."""
    if hours := result.rows("by_hour"):
        figure = draw_hours(hours, result.rows("fleets")[0]["most_gpus"])
        grids = (*grids_of(result, "fleets"), *grids_of(result, "by_hour"))
        title = "Over the rate curve"
        yield Section(15, "fleets", title, "figures.html", None, (figure,), grids)
    if steps := result.rows("gpus_by_rate"):
        planned = (result.rows("verdict") or [{}])[0]
        figure = draw_rates(steps, planned.get("rate_per_s"))
        grids = grids_of(result, "gpus_by_rate")
        yield Section(15, "rates", "If traffic grows", "figures.html", None, (figure,), grids)
