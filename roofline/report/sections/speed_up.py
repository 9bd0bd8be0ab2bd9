"""Speed-up by drafting: by batch, where it turns from a gain into a loss; by length, its work."""

from typing import Any, Final

from roofline.report.figures import axis, colour, layout, linear_axis, lines, rule, scatter
from roofline.table import Result, Table
from roofline.view.block import Figure, Key, Section
from roofline.view.text import plain

SERIES: Final = (
    ("speed_up", "as asked", "decode", "diamond"),
    ("best_speed_up", "with the best draft of each batch", "prefill", "circle"),
    ("gain_bound", "bound of as asked: verification as fast as a step", "muted", "square"),
)
WORK: Final = (
    ("speed_up", "speed-up", "decode", "diamond"),
    ("gain_bound", "bound of the speed-up", "muted", "square"),
    ("operations", "arithmetic of a token", "bad", "circle"),
    ("traffic", "memory traffic of a token", "prefill", "circle"),
)


def draw_speed_up(table: Table) -> Figure:
    """Speed-up of TPOT over the batch, below 1 a loss; open where the batch does not fit."""
    batches, fits = table["batch"], table["fits"]
    there = [series for series in SERIES if series[0] in table.columns]
    most = max(max(table[name]) for name, _, _, _ in there)
    data = [_curve(table, "batch", *series) for series in there]
    spec = {
        "data": data,
        "layout": layout(
            300,
            xaxis=axis(
                "Batch [sequences]",
                type="log",
                tickvals=list(batches),
                ticktext=[plain(batch, 6) for batch in batches],
            ),
            yaxis=linear_axis("Speed-up of TPOT", "", most * 1.12, most * 1.1),
            shapes=[rule(1, "bad", "dash", across=True)],
        ),
    }
    losses = [batch for batch, gain in zip(batches, table["speed_up"], strict=True) if gain < 1]
    first, last = table["speed_up"][0], table["speed_up"][-1]
    summary = f"{first:.2f} × at a batch of {batches[0]}, {last:.2f} × at {batches[-1]}; " + (
        f"a loss from {losses[0]} on." if losses else "a gain at every batch."
    )
    legend = [Key(title, tint, symbol) for _, title, tint, symbol in there]
    legend += [] if all(fits) else [Key("does not fit", "ink", "open")]
    return Figure(
        "speed-up", "Speed-up by drafting, against the batch", summary, spec, tuple(legend)
    )


def draw_work(table: Table) -> Figure:
    """Speed-up, its bound, arithmetic and traffic of a token over those without, by tokens drafted.

    Source: Leviathan et al. 2023 (arXiv 2211.17192), theorems 3.8 and 3.11.
    """
    drafted = table["drafted"]
    most = max(max(table[name]) for name, _, _, _ in WORK)
    spec = {
        "data": [_curve(table, "drafted", *series) for series in WORK],
        "layout": layout(
            300,
            xaxis=axis("Drafted [tokens]", tickvals=list(drafted)),
            yaxis=linear_axis("With drafts / without", "", most * 1.12, most * 1.1),
            shapes=[rule(1, "bad", "dash", across=True)],
        ),
    }
    rows = list(zip(drafted, table["speed_up"], table["operations"], table["traffic"], strict=True))
    size, gain, flops, moved = max(rows, key=lambda row: row[1])
    summary = (
        f"{gain:.2f} × as fast with {plain(size, 6)} drafted, for {flops:.2f} × the arithmetic and "
        f"{moved:.2f} × the memory traffic of a token."
    )
    legend = tuple(Key(title, tint, symbol) for _, title, tint, symbol in WORK)
    return Figure(
        "speed-up-work", "Work of a token, against what is drafted", summary, spec, legend
    )


def _curve(
    table: Table, axis_name: str, name: str, title: str, tint: str, symbol: str
) -> dict[str, Any]:
    fits = table["fits"] if "fits" in table.columns else [True] * len(table)
    return scatter(
        table[axis_name],
        table[name],
        [
            lines([f"{axis_name} {plain(at, 6)}", f"{value:.2f} × {title}"])
            for at, value in zip(table[axis_name], table[name], strict=True)
        ],
        "lines+markers",
        name=title,
        line={"color": colour(tint), "width": 2},
        marker={
            "color": colour(tint),
            "size": 8,
            "symbol": [symbol + ("" if fit else "-open") for fit in fits],
        },
    )


def build(result: Result) -> Section | None:
    """Section of the page."""
    table = result.tables.get("batches")
    if table is None or not len(table) or not {"speed_up", "best_speed_up"} <= set(table.columns):
        return None
    figures = [draw_speed_up(table)]
    drafts = result.tables.get("drafts")
    if drafts is not None and {"drafted", *(name for name, *_ in WORK)} <= set(drafts.columns):
        figures.append(draw_work(drafts))
    return Section(34, "speed-up-section", "Speed-up", "figures.html", figures=tuple(figures))
