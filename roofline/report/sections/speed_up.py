"""Speed-up by drafting against the batch: where it turns from a gain into a loss."""

from typing import Any, Final

from roofline.report.figures import axis, colour, layout, linear_axis, lines, rule, scatter
from roofline.table import Result, Table
from roofline.view.block import Block, Figure, Key
from roofline.view.text import plain

SERIES: Final = (
    ("speed_up", "as asked", "decode", "diamond"),
    ("best_speed_up", "with the best draft of each batch", "prefill", "circle"),
)


def draw_speed_up(table: Table) -> Figure:
    """Speed-up of TPOT over the batch, below 1 a loss; open where the batch does not fit."""
    batches, fits = table["batch"], table["fits"]
    most = max(max(table[name]) for name, _, _, _ in SERIES)
    data = [_curve(table, *series) for series in SERIES]
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
    legend = [Key(title, tint, symbol) for _, title, tint, symbol in SERIES]
    legend += [] if all(fits) else [Key("does not fit", "ink", "open")]
    return Figure(
        "speed-up", "Speed-up by drafting, against the batch", summary, spec, tuple(legend)
    )


def _curve(table: Table, name: str, title: str, tint: str, symbol: str) -> dict[str, Any]:
    return scatter(
        table["batch"],
        table[name],
        [
            lines([f"batch {plain(batch, 6)}", f"{value:.2f} × {title}"])
            for batch, value in zip(table["batch"], table[name], strict=True)
        ],
        "lines+markers",
        name=title,
        line={"color": colour(tint), "width": 2},
        marker={
            "color": colour(tint),
            "size": 8,
            "symbol": [symbol + ("" if fits else "-open") for fits in table["fits"]],
        },
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    table = result.tables.get("batches")
    if table is None or not len(table) or not {"speed_up", "best_speed_up"} <= set(table.columns):
        return None
    figures = (draw_speed_up(table),)
    return Block(34, "speed-up-section", "Speed-up", "figures.html", figures=figures)
