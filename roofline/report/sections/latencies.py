"""Percentiles of what users wait for, with the limits of the SLO."""

from dataclasses import dataclass
from typing import Any, Final

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
from roofline.view.block import Block, Figure, Key
from roofline.view.text import amount, between, is_number, label
from roofline.view.words import heading

LOOKS: Final = (
    ("p50", "prefill", "circle"),
    ("p90", "compute", "square"),
    ("p99", "decode", "diamond"),
)
"""Percentiles that are drawn, with their colour and symbol."""
ROW: Final = 44
"""Height of a latency. [px]"""


@dataclass(frozen=True, slots=True)
class Latency:
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


def build(result: Result) -> Block | None:
    """Section of the page."""
    headline = result.tables.get("headline")
    if headline is None or not {name for name, _, _ in LOOKS} <= set(headline.columns):
        return None
    facts = latency_facts(result)
    if not facts:
        return None
    return Block(33, "latencies", "Latencies", "figures.html", facts, (draw_latencies(facts),))
