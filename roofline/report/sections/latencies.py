"""Latencies of users: percentiles and distribution, with the limits of the SLO."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from roofline.report.figures import (
    axis,
    colour,
    layout,
    lines,
    log_ticks,
    name_axis,
    scatter,
    whiskers,
)
from roofline.table import Result
from roofline.view.block import Figure, Key, Section
from roofline.view.text import amount, between, is_number, label, percent
from roofline.view.words import heading

LOOKS: Final = (
    ("p50", "prefill", "circle"),
    ("p90", "compute", "square"),
    ("p99", "decode", "diamond"),
)
"""Percentiles that are drawn, with their colour and symbol."""
SHARED: Final = (
    ("ttft_s", "prefill", ""),
    ("tpot_s", "compute", "dash"),
    ("latency_s", "decode", "dot"),
)
"""Latencies of which the distribution is drawn, with their colour and dash."""
ROW: Final = 44
"""Height of a latency. [px]"""


class Latency(Struct, frozen=True):
    """One latency over all requests."""

    name: str
    values: dict[str, float]
    """Values by percentile. [s]"""
    ends: dict[str, tuple[float, float]]
    """Ends of the central 80 % of each, where there are any. [s]"""
    limits: tuple[tuple[str, float], ...]
    """Limits on it: statistic and most. [s]"""


def latency_facts(result: Result) -> tuple[Latency, ...]:
    """Latencies that took time, in the order of the result."""
    limits, found = result.rows("objectives"), []
    for row in result.rows("headline"):
        metric = str(row["metric"]).removesuffix("_s")
        values = {name: row[name] for name, _, _ in LOOKS}
        if not all(is_number(value) and value > 0 for value in values.values()):
            continue
        ends = {
            name: (row[f"{name}_low"], row[f"{name}_high"])
            for name in values
            if is_number(row.get(f"{name}_low")) and is_number(row.get(f"{name}_high"))
        }
        said = [(str(each["objective"]).rpartition("_"), each["limit_s"]) for each in limits]
        of_it = tuple((name[2], limit) for name, limit in said if name[0] == metric)
        found.append(Latency(heading(str(row["metric"])), values, ends, of_it))
    return tuple(found)


def draw_latencies(facts: tuple[Latency, ...]) -> Figure:
    """A row for each latency on one axis of time, a mark for each percentile."""
    every = [value for each in facts for value in each.values.values()]
    every += [end for each in facts for pair in each.ends.values() for end in pair if end > 0]
    every += [limit for each in facts for _, limit in each.limits]
    edges = min(every) / 1.3, max(every) * 1.3
    data = [_marks(facts, *look) for look in LOOKS]
    legend = [Key(name, tint, symbol) for name, tint, symbol in LOOKS]
    if any(each.limits for each in facts):
        data.append(_limits(facts))
        legend.append(Key("limit", "bad", "stem"))
    spec = {
        "data": data,
        "layout": layout(
            60 + ROW * len(facts),
            xaxis=axis("Time, logarithmic", type="log", **log_ticks(*edges, "s")),
            yaxis=name_axis([each.name for each in facts], len(facts) - 0.5, -0.5, showgrid=False),
        ),
    }
    summary = "; ".join(
        f"{each.name} {amount(each.values['p50'], 's')} in the middle, "
        f"{amount(each.values['p99'], 's')} for one in a hundred"
        for each in facts
    )
    return Figure("latencies", "What users wait for", f"{summary}.", spec, tuple(legend))


def _marks(facts: tuple[Latency, ...], name: str, tint: str, symbol: str) -> dict[str, Any]:
    ends = [each.ends.get(name, (each.values[name],) * 2) for each in facts]
    values = [each.values[name] for each in facts]
    return scatter(
        values,
        range(len(facts)),
        [
            lines(
                [
                    f"{label(each.name)}, {name}: {amount(each.values[name], 's')}",
                    *([f"80 % in {between(*each.ends[name], 's')}"] if name in each.ends else []),
                ]
            )
            for each in facts
        ],
        name=name,
        marker={"color": colour(tint), "symbol": symbol, "size": 9},
        error_x=whiskers(values, ends, color=colour(tint, 0.6), thickness=1.2, width=4),
    )


def _limits(facts: tuple[Latency, ...]) -> dict[str, Any]:
    kept = [(place, name, most) for place, each in enumerate(facts) for name, most in each.limits]
    marker = {"symbol": "line-ns-open", "size": 26, "color": colour("bad")}
    return scatter(
        (most for _, _, most in kept),
        (place for place, _, _ in kept),
        [
            f"{label(facts[place].name)}, {label(name)}: at most {amount(most, 's')}"
            for place, name, most in kept
        ],
        name="limit",
        marker=marker | {"line": {"width": 2, "color": colour("bad")}},
    )


def draw_distribution(
    rows: Sequence[Mapping[str, Any]], limits: Sequence[Mapping[str, Any]]
) -> Figure:
    """Share of the requests within a time, for each latency; limits of the SLO as crosses."""
    tints = {name: tint for name, tint, _ in SHARED}
    shares = [float(row["request_share"]) for row in rows]
    drawn = [look for look in SHARED if look[0] in rows[0]]
    data = [
        scatter(
            (row[name] for row in rows),
            shares,
            [f"{percent(row['request_share'])} within {amount(row[name], 's')}" for row in rows],
            "lines",
            name=heading(name),
            line={"color": colour(tint), "width": 2, **({"dash": dash} if dash else {})},
        )
        for name, tint, dash in drawn
    ]
    legend = [Key(heading(name), tint, dash or "line") for name, tint, dash in drawn]
    of = {"ttft": "ttft_s", "tpot": "tpot_s", "e2e": "latency_s"}
    points = []
    for row in limits:
        metric, _, statistic = str(row["objective"]).rpartition("_p")
        if metric in of and statistic.replace(".", "").isdigit():
            tint = colour(tints[of[metric]])
            at = float(row["limit_s"]), float(statistic) / 100
            points.append((*at, str(row["objective"]), tint))
    if points:
        data.append(
            scatter(
                (point[0] for point in points),
                (point[1] for point in points),
                [f"{heading(name)}: at most {amount(at, 's')}" for at, _, name, _ in points],
                name="limit",
                marker={
                    "symbol": "x",
                    "size": 9,
                    "color": [point[3] for point in points],
                    "opacity": 1,
                },
            )
        )
        legend.append(Key("limit: the line of its colour passes above it", "ink", "x"))
    every = [float(row[name]) for row in rows for name, _, _ in drawn]
    every = [value for value in (*every, *(point[0] for point in points)) if value > 0]
    ticks = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99)
    spec = {
        "data": data,
        "layout": layout(
            max(60 + ROW * 4, 260),
            xaxis=axis(
                "Time, logarithmic",
                type="log",
                **log_ticks(min(every) / 1.2, max(every) * 1.2, "s"),
            ),
            yaxis=axis(
                "Requests within it",
                range=[0, 1.02],
                tickvals=list(ticks),
                ticktext=[percent(tick) for tick in ticks],
            ),
        ),
    }
    half = rows[shares.index(0.5)]
    said = ", ".join(f"{heading(name)} {amount(half[name], 's')}" for name, _, _ in drawn)
    return Figure(
        "distribution",
        "How many wait for how long",
        f"Half of the requests are within {said}. Points are of requests that were simulated; "
        "each latency is ranked by itself.",
        spec,
        tuple(legend),
    )


def build(result: Result) -> Section | None:
    """Section of the page."""
    headline = result.tables.get("headline")
    if headline is None or not {name for name, _, _ in LOOKS} <= set(headline.columns):
        return None
    facts = latency_facts(result)
    if not facts:
        return None
    figures = [draw_latencies(facts)]
    if spread := result.rows("distribution"):
        figures.append(draw_distribution(spread, result.rows("objectives")))
    drawn = tuple(figures)
    return Section(33, "latencies-section", "Latencies", "figures.html", facts, drawn)
