"""GPUs of a fleet that follows a rate curve, above the rate, hour by hour."""

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.report.figures import colour, layout, linear_axis, lines, note, rule, scatter
from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Block, Figure, Key
from roofline.view.questions import grids_of
from roofline.view.text import plain

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


def build(result: Result) -> Block | None:
    """Section of the page."""
    hours = result.rows("by_hour")
    if not hours:
        return None
    fixed = result.rows("fleets")[0]["most_gpus"]
    figures = (draw_hours(hours, fixed),)
    grids = (*grids_of(result, "fleets"), *grids_of(result, "by_hour"))
    return Block(15, "fleets", "Over the rate curve", "figures.html", None, figures, grids)
