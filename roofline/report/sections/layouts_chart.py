"""Every layout that fits: how fast it answers against what each GPU gives."""

from typing import Any, Final

from roofline.report.figures import colour, layout, linear_axis, lines, scatter
from roofline.table import Result
from roofline.view.block import Block, Figure, Key
from roofline.view.text import amount, is_number, label, percent

SPEED: Final = "latency_s"
RATE: Final = "filled_tok_s_per_gpu"


def draw_layouts(rows: list[dict[str, Any]], best: set[str]) -> Figure:
    """A point for each layout; those that are best for something stand out and have their name."""
    speeds, rates = [row[SPEED] for row in rows], [row[RATE] for row in rows]
    chosen = [row["layout"] in best for row in rows]
    points = scatter(
        speeds,
        rates,
        [
            lines(
                [
                    f"{label(row['layout'])}, {row['replicas']} ×",
                    f"latency {amount(row[SPEED], 's')}, TPOT {amount(row['tpot_s'], 's')}",
                    f"{amount(row[RATE], 'token/s')} of each GPU when full",
                    f"wires {percent(row['wire_share'])} of a decode step",
                ]
            )
            for row in rows
        ],
        "markers+text",
        text=[label(row["layout"]) if star else "" for row, star in zip(rows, chosen, strict=True)],
        textposition="top center",
        textfont={"size": 11, "color": colour("muted")},
        cliponaxis=False,
        marker={
            "symbol": ["diamond" if star else "circle" for star in chosen],
            "size": [12 if star else 8 for star in chosen],
            "color": [colour("decode" if star else "prefill") for star in chosen],
        },
    )
    slow, high = max(speeds), max(rates)
    spec = {
        "data": [points],
        "layout": layout(
            360,
            xaxis=linear_axis("Latency of an answer at this batch", "s", slow * 1.08, slow * 1.05),
            yaxis=linear_axis(
                "Throughput of a GPU when full [token/s]", "", high * 1.15, high * 1.1
            ),
        ),
    }
    fast, rich = min(rows, key=lambda row: row[SPEED]), max(rows, key=lambda row: row[RATE])
    return Figure(
        "layouts",
        "Layouts: latency against throughput",
        f"From {fast['layout']} with {amount(fast[SPEED], 's')} to {rich['layout']} with "
        f"{amount(rich[RATE], 'token/s')} of each GPU; to the left and up is better.",
        spec,
        (
            Key("best for something", "decode", "diamond"),
            Key("others that fit", "prefill", "circle"),
        ),
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    table, best = result.tables.get("layouts"), result.tables.get("best")
    if table is None or best is None or not {SPEED, RATE, "wire_share"} <= set(table.columns):
        return None
    rows = [row for row in table.rows() if row["fits"] and is_number(row[RATE]) and row[RATE] > 0]
    if len(rows) < 2:
        return None
    figure = draw_layouts(rows, {str(name) for name in best["layout"]})
    return Block(35, "layouts", "Layouts", "figures.html", figures=(figure,))
