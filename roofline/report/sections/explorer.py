"""Configurations to choose from: two side by side, at any batch and length that was priced."""

from math import prod
from typing import Any, Final

from msgspec import Struct

from roofline.report.figures import colour, layout
from roofline.report.lanes import (
    SPEED,
    PageConfigurations,
    VariedSetting,
    alike,
    embedded,
    speed_axes,
    swept,
)
from roofline.table import Result, table
from roofline.view.block import Figure, Key, PageTable, Section
from roofline.view.grids import grid
from roofline.view.text import is_number
from roofline.view.words import heading, mid

BEST: Final = 25
"""Rows of the table of the best configurations."""
SHOWN: Final = (
    *("ttft_s", "tpot_s", "user_tok_s", "throughput_per_gpu_tok_s", "output_per_gpu_tok_s"),
    *("usd_per_mtok", "memory_bytes"),
)
"""Figures of the best."""
ENDED: Final = frozenset({"ttft_s", "tpot_s", "usd_per_mtok"})
"""Figures that are shown with their interval."""
SAID: Final = frozenset({heading("batch"), heading("prompt")})
"""Titles of numbers that the caption has where they are the same everywhere."""


class ExplorerFacts(Struct, frozen=True):
    """Choices of the controls, and the configurations behind them."""

    axes: tuple[VariedSetting, ...]
    numbers: tuple[VariedSetting, ...]
    """Names and numbers to choose."""
    fixed: tuple[str, ...]
    """Settings that all have in common, in words."""
    data: dict[str, Any]
    """Configurations for the script."""
    first: tuple[int, ...]
    second: tuple[int, ...]
    """Places of the values that sides A and B begin with, by axis."""
    at: tuple[int, ...]
    """Places of the numbers to begin with."""
    limited: tuple[tuple[str, str, float | None], ...]
    """Figures that can have a limit: column, title and limit to begin with. [ms]"""
    left_out: int
    gaps: str
    """Sentence where some combinations of the choices are not there; else empty."""


def explorer_facts(result: Result, lanes: PageConfigurations) -> ExplorerFacts:
    """Controls of the configurations of a result."""
    start = result.metadata.get("start")
    asked = start.items() if isinstance(start, dict) else ()
    begun = (row for row in lanes.rows if asked and all(row.get(n) == value for n, value in asked))
    best = next(begun, lanes.rows[0])
    lane = tuple(axis.values.index(best[axis.name]) for axis in lanes.axes)
    # The best of another scenario, if there are several; else the next best.
    apart = [a.name for a in lanes.axes if a.name == "scenario"] or [a.name for a in lanes.axes]
    other = next((row for row in lanes.rows if any(row[n] != best[n] for n in apart)), best)
    limits = result.metadata.get("limits")
    limits = limits if isinstance(limits, dict) else {}
    limited = []
    for stem in ("ttft", "tpot"):  # the percentile where it is known
        name = next((n for n in (f"{stem}_p99_s", f"{stem}_s") if n in lanes.figures), "")
        limit = limits.get(name)
        if name:
            most = round(1000.0 * limit, 3) if is_number(limit) else None
            limited.append((name, heading(name), most))
    return ExplorerFacts(
        axes=lanes.axes,
        numbers=lanes.numbers,
        fixed=tuple(f"{title}: {value}" for title, value in lanes.fixed if value not in ("", None)),
        data=embedded(lanes),
        first=lane,
        second=tuple(axis.values.index(other[axis.name]) for axis in lanes.axes),
        at=tuple(number.values.index(best[number.name]) for number in lanes.numbers),
        limited=tuple(limited),
        left_out=lanes.left_out,
        gaps=_gaps(result, lanes),
    )


def _gaps(result: Result, lanes: PageConfigurations) -> str:
    if len(lanes.rows) == prod(len(each.values) for each in (*lanes.axes, *lanes.numbers)):
        return ""
    some = result.metadata.get("keep", "all") != "all"
    missing = "Only what the sweep kept" if some else "Not every combination"
    more = " Where a sweep keeps all, every one is here." if some else ""
    return f"{missing} can be chosen: a choice that leads to none moves the others.{more}"


def draw_curve(lanes: PageConfigurations) -> Figure | None:
    """Throughput per GPU against speed for one user; the page puts both sides in."""
    rate = lanes.rate
    if not rate or SPEED not in lanes.figures:
        return None
    fits = [row for row in lanes.rows if row.get("fits", True)] or lanes.rows
    figure = layout(360, **speed_axes(fits, rate))
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": side,
            "x": [],
            "y": [],
            "line": {"color": colour(tint), "width": 2, "dash": dash},
            "marker": {"color": colour(tint), "symbol": symbol, "size": [], "opacity": 1},
            "error_y": {"color": colour(tint, 0.5), "thickness": 1, "width": 3},
            "hovertext": [],
            "hoverinfo": "text",
        }
        for side, tint, symbol, dash in (
            ("A", "prefill", "circle", "solid"),
            ("B", "decode", "diamond", "dash"),
        )
    ]
    return Figure(
        "explorer-curve",
        "Throughput per GPU against speed per user",
        "One point for each batch or load of the chosen configurations; the figures of the large "
        "points are in the table.",
        {"data": data, "layout": figure, "rate": rate},
        (Key("A", "prefill", "circle"), *([Key("B", "decode", "diamond")] if lanes.axes else [])),
    )


def _best(lanes: PageConfigurations) -> PageTable:
    """The best rows as a table, whether scripts run or not."""
    names = [choice.name for choice in (*lanes.axes, *lanes.numbers)]
    figures = [f"{name}, {name}_low" if name in ENDED else name for name in SHOWN]
    rows = lanes.rows[:BEST]
    columns = dict.fromkeys(key for row in rows for key in row)
    every = table([{key: row.get(key) for key in columns} for row in rows], {})
    said = [f"{mid(title)} {value:,}" for title, value in lanes.fixed if title in SAID]
    lengths = f" at {', '.join(said)}" if said else ""
    title = f"The best configurations{lengths}, those that keep all limits first"
    return grid("best-table", title, every, ", ".join((*names, *figures, "basis")))


def build(result: Result) -> Section | None:
    """Section of the page."""
    points = result.tables.get("points")
    if points is None or not len(points):
        return None
    lanes = swept(result, points)
    if not lanes.rows:
        return None
    figure = draw_curve(lanes)
    return Section(
        62,
        "explorer-section",
        "Explore",
        "explorer.html",
        explorer_facts(result, lanes),
        figures=() if figure is None else (figure,),
        grids=(_best(swept(result, alike(result, points))),),
        script="explorer.js",
    )
