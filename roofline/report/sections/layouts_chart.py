"""Every layout that fits: how fast it answers against what each GPU gives."""

from typing import Any, Final

from roofline.report.figures import axis, colour, layout, linear_ticks, lines, note, scatter
from roofline.report.sections.pareto import frontier
from roofline.report.statuses import spoken_layout
from roofline.table import Result
from roofline.view.block import Figure, Key, Section
from roofline.view.text import amount, is_number, label, percent

SPEED: Final = "latency_s"
RATE: Final = "filled_tok_s_per_gpu"


def draw_layouts(rows: list[dict[str, Any]], best: set[str]) -> Figure:
    """A point for each layout, and a line through those that nothing beats in both.

    Those that are best for something stand out and have their name.
    """
    speeds, rates = [row[SPEED] for row in rows], [row[RATE] for row in rows]
    chosen = [row["layout"] in best for row in rows]
    front = [(-x, y) for x, y in frontier([(-row[SPEED], row[RATE]) for row in rows])][::-1]
    points = scatter(
        speeds,
        rates,
        [
            lines(
                [
                    f"{label(spoken_layout(row['layout']))}, {row['replicas']} ×",
                    f"latency {amount(row[SPEED], 's')}, TPOT {amount(row['tpot_s'], 's')}",
                    f"{amount(row[RATE], 'token/s')} of each GPU when full",
                    f"interconnect {percent(row['wire_share'])} of a decode step",
                ]
            )
            for row in rows
        ],
        name="layouts",
        cliponaxis=False,
        marker={
            "symbol": ["diamond" if star else "circle" for star in chosen],
            "size": [12 if star else 8 for star in chosen],
            "color": [colour("decode" if star else "prefill") for star in chosen],
            "opacity": 1,
        },
    )
    line = scatter(
        (x for x, _ in front),
        (y for _, y in front),
        mode="lines",
        name="nothing is better in both",
        line={"color": colour("muted"), "width": 1.5, "dash": "dot"},
    )
    spec = {
        "data": [line, points],
        "layout": layout(
            400,
            xaxis=_span("Latency of an answer at this batch", "s", speeds),
            yaxis=_span("Throughput of a GPU when full [token/s]", "", rates),
            annotations=[
                note(
                    label(spoken_layout(row["layout"])),
                    row[SPEED],
                    row[RATE],
                    showarrow=True,
                    arrowhead=0,
                    arrowcolor=colour("faint"),
                    ax=26,
                    ay=-26,
                    xanchor="left",
                    font={"size": 11, "color": colour("ink")},
                )
                for row, star in zip(rows, chosen, strict=True)
                if star
            ],
        ),
    }
    fast, rich = min(rows, key=lambda row: row[SPEED]), max(rows, key=lambda row: row[RATE])
    return Figure(
        "layouts",
        "Layouts: latency against throughput",
        f"From {spoken_layout(fast['layout'])} with {amount(fast[SPEED], 's')} to "
        f"{spoken_layout(rich['layout'])} with "
        f"{amount(rich[RATE], 'token/s')} of each GPU; to the left and up is better.",
        spec,
        (
            Key("best for something", "decode", "diamond"),
            Key("others that fit", "prefill", "circle"),
            Key("nothing is better in both", "muted", "dot"),
        ),
    )


def _span(title: str, unit: str, values: list[float]) -> dict[str, Any]:
    """An axis over some values, from 0 only where they come near it."""
    low, high = min(values), max(values)
    room = 0.1 * ((high - low) or high)
    start = 0.0 if low < 0.25 * high else low - room
    ticks = linear_ticks(high + room, unit, low=start)
    return axis(title, range=[start, high + 1.5 * room], **ticks)


def build(result: Result) -> Section | None:
    """Section of the page."""
    table, best = result.tables.get("layouts"), result.tables.get("best")
    if table is None or best is None or not {SPEED, RATE, "wire_share"} <= set(table.columns):
        return None
    rows = [row for row in table.rows() if row["fits"] and is_number(row[RATE]) and row[RATE] > 0]
    if len(rows) < 2:
        return None
    figure = draw_layouts(rows, {str(name) for name in best["layout"]})
    return Section(35, "layouts-section", "Layouts", "figures.html", figures=(figure,))
