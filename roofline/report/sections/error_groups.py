"""Errors of measured figures by group: a figure, the tables, and rows that are not predicted."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from roofline.report.figures import axis, colour, layout, lines, log_ticks, name_axis, scatter
from roofline.report.scored import has_scores
from roofline.table import Result
from roofline.view.block import Figure, Key, PageTable, Section
from roofline.view.questions import grids_of
from roofline.view.scores import groups
from roofline.view.text import is_number, label, percent
from roofline.view.words import heading

LOOKS: Final = (("prefill", "circle"), ("decode", "diamond"), ("compute", "square"), ("wire", "x"))
"""Colour and symbol of each metric."""
FIGURES: Final = frozenset({"metric", "rows", "of", "median", "mean", "p90", "inside", "datasheet"})
"""Columns of a validation that no group is named by."""
MOST: Final = 24
"""Groups that a figure has room for, those with the most figures. [1]"""
LEAST: Final = 0.001
"""Error from which the axis begins. [1]"""
ROW: Final = 26
"""Height of a group. [px]"""


class GroupError(Struct, frozen=True):
    """Errors of the figures of a group in one metric, as shares."""

    name: str
    metric: str
    figures: int
    median: float
    p90: float
    inside: float | None


def group_errors(result: Result) -> tuple[GroupError, ...]:
    """Errors by engine and GPU, or by the columns that a validation was asked for."""
    found = []
    for row in result.rows("groups"):
        if row["by"] == "engine and gpu":
            keys, errors = (row["engine"], row["gpu"]), (row["median_error"], row["p90_error"])
            found.append(_error(keys, row, row["figures"], errors))
    validated = result.rows("validated")
    by = [
        name
        for name in (validated[0] if validated else ())
        if name not in FIGURES and len({row[name] for row in validated}) > 1
    ]
    for row in validated:
        told = [row[name] for name in by]
        if is_number(row["median"]):
            found.append(_error(told, row, row["rows"], (row["median"], row["p90"])))
    sizes: dict[str, int] = {}
    for each in found:
        sizes[each.name] = sizes.get(each.name, 0) + each.figures
    shown = sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST]
    return tuple(each for name in shown for each in found if each.name == name)


def _error(
    keys: Sequence[Any], row: Mapping[str, Any], figures: int, errors: tuple[float, float]
) -> GroupError:
    name = ", ".join(str(key) for key in keys)
    return GroupError(name, str(row["metric"]), figures, *errors, row["inside"])


def draw_errors(facts: Sequence[GroupError]) -> Figure:
    """A row for each group, in it the median error of each metric and a line to the 90 % point."""
    names = list(dict.fromkeys(each.name for each in facts))
    metrics = list(dict.fromkeys(each.metric for each in facts))
    data, legend = [], []
    for at, (metric, (tint, symbol)) in enumerate(zip(metrics, LOOKS, strict=False)):
        mine = [each for each in facts if each.metric == metric]
        offset = 0.5 * (at / max(len(metrics) - 1, 1) - 0.5) * (len(metrics) > 1)
        medians = [max(each.median, LEAST) for each in mine]
        reach = [max(each.p90 - max(each.median, LEAST), 0.0) for each in mine]
        data.append(
            scatter(
                medians,
                (names.index(each.name) + offset for each in mine),
                [_hover(each) for each in mine],
                name=heading(metric),
                marker={"color": colour(tint), "symbol": symbol, "size": 7, "opacity": 1},
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": reach,
                    "arrayminus": [0.0] * len(reach),
                    "color": colour(tint, 0.6),
                    "thickness": 1.2,
                    "width": 3,
                },
            )
        )
        legend.append(
            Key(f"{heading(metric)}: median, and up to the 90th percentile", tint, symbol)
        )
    ends = [value for each in facts for value in (max(each.median, LEAST), max(each.p90, LEAST))]
    low, high = min(ends) / 1.3, max(ends) * 1.3
    ticks = log_ticks(low, high, "")
    ticks["ticktext"] = [f"{100 * value:g}" for value in ticks["tickvals"]]
    spec = {
        "data": data,
        "layout": layout(
            70 + ROW * len(names),
            xaxis=axis("Absolute error [%]", type="log", **ticks),
            yaxis=name_axis(names, len(names) - 0.4, -0.6, showgrid=False),
        ),
    }
    best, worst = (pick(facts, key=lambda each: each.median) for pick in (min, max))
    return Figure(
        "errors-by-group",
        "Errors by group",
        f"Medians from {percent(best.median)} ({best.name}, {heading(best.metric)}) to "
        f"{percent(worst.median)} ({worst.name}, {heading(worst.metric)}), of "
        f"{len(names)} groups{' with the most figures' * (len(names) == MOST)}.",
        spec,
        tuple(legend),
    )


def _hover(each: GroupError) -> str:
    inside = "" if each.inside is None else f"{percent(each.inside)} in their interval"
    told = [f"{label(each.name, 48)}: {heading(each.metric)}, {each.figures:,} figures"]
    told.append(f"median {percent(each.median)}, 90th percentile {percent(each.p90)}")
    return lines([*told, *([inside] if inside else [])])


def _grids(result: Result) -> tuple[PageTable, ...]:
    if has_scores(result):
        return (*groups(result), *grids_of(result, "reasons"), *grids_of(result, "refused"))
    if "validated" in result.tables:
        return (*grids_of(result, "validated"), *grids_of(result, "refused"))
    if "groups" not in result.tables:
        return ()
    # Of own runs, where there is more than one group.
    metrics = len({row["metric"] for row in result.rows("groups")})
    by = (each for each in groups(result) if each.key != "groups-all")
    return tuple(each for each in by if len(each.rows) > metrics)


def build(result: Result) -> Section | None:
    """Section of the page."""
    grids, facts = _grids(result), group_errors(result)
    several = len({each.name for each in facts}) > 1
    figures = (draw_errors(facts),) if several else ()
    if not grids and not figures:
        return None
    return Section(13, "groups", "Errors by group", "groups.html", None, figures, grids)
