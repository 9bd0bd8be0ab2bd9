"""Every configuration of a sweep: what a GPU gives against what a user gets, and the frontier."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roofline.report.figures import colour, layout, lines, scatter
from roofline.report.lanes import SPEED, PageConfigurations, alike, speed_axes, swept
from roofline.table import Result
from roofline.view.block import Figure, Key, Section
from roofline.view.known import is_bound
from roofline.view.text import is_number, label
from roofline.view.words import heading, written

LOOKS: Final = (
    ("prefill", "circle"),
    ("decode", "diamond"),
    ("compute", "square"),
    ("wire", "cross"),
    ("memory", "triangle-up"),
    ("host", "x"),
)
"""Colour and symbol of each group, as many as can be told apart."""
MOST: Final = 800
"""Points that a reader can tell apart, the best ones."""
GROUPED: Final = ("scenario", "gpu", "model", "technique", "weights", "layout")
"""Names to group configurations by; the first that differs is taken."""


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that no other one beats in both, by the first.

    >>> frontier([(1.0, 5.0), (2.0, 4.0), (1.5, 3.0), (2.0, 1.0)])
    [(1.0, 5.0), (2.0, 4.0)]
    """
    kept: list[tuple[float, float]] = []
    for point in sorted(points, reverse=True):
        if not kept or point[1] > kept[-1][1]:
            kept.append(point)
    return kept[::-1]


def groups(
    lanes: PageConfigurations, rows: Sequence[Mapping[str, Any]]
) -> dict[str, list[Mapping[str, Any]]]:
    """Rows by the first name that differs and has few values; all in one if there is none."""
    axes = {each.name: each for each in lanes.axes}
    name = next((n for n in GROUPED if n in axes and len(axes[n].values) <= len(LOOKS)), "")
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(str(row[name]) if name else "configurations", []).append(row)
    return found


def draw(lanes: PageConfigurations) -> Figure | None:
    """Configurations that fit with both figures; None where there are fewer than two."""
    rate = lanes.rate
    rows = [
        row
        for row in lanes.rows[:MOST]
        if is_number(row.get(SPEED)) and is_number(row.get(rate)) and row[SPEED] > 0 < row[rate]
    ]
    rows = [row for row in rows if row.get("fits", True)] or rows
    if len(rows) < 2:
        return None
    looks = list(zip(groups(lanes, rows).items(), LOOKS, strict=False))
    data = [_points(lanes, rate, *group, *look) for group, look in looks]
    ranked = [row for row in rows if not is_bound(row)] or rows
    best = frontier([(row[SPEED], row[rate]) for row in ranked if row.get("feasible", True)])
    if len(best) > 1:
        line = {"color": colour("muted"), "width": 1, "shape": "vh"}
        x, y = zip(*best, strict=True)
        data.insert(0, scatter(x, y, mode="lines", line=line))
    fast, rich = max(rows, key=lambda row: row[SPEED]), max(rows, key=lambda row: row[rate])
    legend = [Key(text[:60], *look) for (text, _), look in looks]
    number = sum(is_bound(row) for row in rows)
    bounds = f" {number} of {len(rows)} are bounds at datasheet rates, no forecasts."
    return Figure(
        "pareto",
        "What a GPU gives against what a user gets",
        f"From {written(rate, rich[rate])} of a GPU at {written(SPEED, rich[SPEED])} for a user "
        f"({_named(lanes, rich)}) to {written(SPEED, fast[SPEED])} for a user "
        f"({_named(lanes, fast)}).{bounds if number else ''}",
        {"data": data, "layout": layout(340, **speed_axes(rows, rate))},
        (*legend, Key("nothing feasible is better in both", "muted", "stem")),
    )


def _points(
    lanes: PageConfigurations,
    rate: str,
    name: str,
    rows: list[Mapping[str, Any]],
    tint: str,
    symbol: str,
) -> dict[str, Any]:
    feasible = [bool(row.get("feasible", True)) for row in rows]
    return scatter(
        (row[SPEED] for row in rows),
        (row[rate] for row in rows),
        [_hover(lanes, rate, row) for row in rows],
        name=label(name),
        marker={
            "color": colour(tint),
            "symbol": [symbol + ("" if kept else "-open") for kept in feasible],
            "size": 7,
            "opacity": 1,
        },
    )


def _hover(lanes: PageConfigurations, rate: str, row: Mapping[str, Any]) -> str:
    shown = [name for name in (rate, SPEED, "ttft_s", "usd_per_mtok") if is_number(row.get(name))]
    told = [
        label(_named(lanes, row), 60),
        *(f"{heading(name)}: {written(name, row[name])}" for name in shown),
    ]
    if is_bound(row):
        told.append("a bound at datasheet rates")
    if row.get("limit"):
        told.append(f"misses {label(heading(str(row['limit'])))}")
    return lines(told)


def _named(lanes: PageConfigurations, row: Mapping[str, Any]) -> str:
    numbers = [f"{each.title.lower()} {written('', row[each.name])}" for each in lanes.numbers]
    names = " ".join(str(row[axis.name]) for axis in lanes.axes)
    return ", ".join([part for part in (names, *numbers) if part])


def build(result: Result) -> Section | None:
    """Section of the page."""
    table = result.tables.get("points")
    if table is None or not len(table):
        return None
    figure = draw(swept(result, alike(result, table)))
    if figure is None:
        return None
    return Section(61, "pareto-section", "All configurations", "figures.html", figures=(figure,))
