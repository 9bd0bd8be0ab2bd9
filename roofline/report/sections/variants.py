"""Factors of each variant on the figures of the base, side by side."""

from typing import Any, Final

from roofline.records import replace
from roofline.report.figures import colour, layout, linear_axis, name_axis, rule, scatter
from roofline.table import Result, Table
from roofline.view.block import Figure, Key, Section
from roofline.view.tables import factors
from roofline.view.text import is_number, label
from roofline.view.words import heading

LOOKS: Final = (
    ("prefill", "circle"),
    ("decode", "diamond"),
    ("ink", "square"),
    ("compute", "open"),
)
FIGURES: Final = {
    "steady": ("ttft_idle_s", "tpot_steady_s", "steady_tok_s", "steady_usd_per_mtok"),
    "static": ("ttft_s", "tpot_s", "throughput_tok_s", "usd_per_mtok"),
}
"""TTFT, TPOT, throughput and price, by how variants are ranked."""
ROW: Final = 40
"""Height of a variant. [px]"""


def ranked(result: Result) -> Result:
    """The same with the factors by which variants are ranked alone."""
    table, rank = result.tables["factors"], result.metadata.get("rank")
    shown = ("variant", *FIGURES["steady" if rank == "steady" else "static"])
    columns = {name: table.columns[name] for name in shown if name in table.columns}
    return replace(result, tables={**result.tables, "factors": Table(columns)})


def draw_variants(table: Table) -> Figure:
    """A row for each variant on one axis of factors; 1 is the base."""
    names = [str(name) for name in table["variant"]]
    figures = [name for name in table.columns if name != "variant"]
    looks = zip(figures, LOOKS, strict=False)
    found = [(name, *look) for name, look in looks if _numbers(table, name)]
    every = [value for name, _, _ in found for value in table[name] if is_number(value)]
    most = max(1.0, *every)
    spec = {
        "data": [_marks(table, *look) for look in found],
        "layout": layout(
            70 + ROW * len(names),
            xaxis=linear_axis("Factor on the base", "", most * 1.08, most * 1.05),
            yaxis=name_axis(names, len(names) - 0.5, -0.5),
            shapes=[rule(1, "faint", "dash")],
        ),
    }
    summary = "; ".join(
        f"{row['variant']}: "
        + ", ".join(f"{heading(name)} × {row[name]:.2f}" for name, _, _ in found if row[name])
        for row in table.rows()
    )
    legend = tuple(Key(heading(name), tint, symbol) for name, tint, symbol in found)
    return Figure("variants", "What each variant changes", f"{summary}.", spec, legend)


def _numbers(table: Table, name: str) -> bool:
    return any(is_number(value) and value > 0 for value in table[name])


def _marks(table: Table, name: str, tint: str, symbol: str) -> dict[str, Any]:
    known = [(place, row) for place, row in enumerate(table.rows()) if is_number(row[name])]
    return scatter(
        (row[name] for _, row in known),
        (place for place, _ in known),
        [f"{label(row['variant'])}: {heading(name)} × {row[name]:.2f}" for _, row in known],
        name=heading(name),
        marker={
            "color": colour(tint),
            "symbol": "square-open" if symbol == "open" else symbol,
            "size": 10,
            "line": {"width": 2 if symbol == "open" else 0, "color": colour(tint)},
        },
    )


def build(result: Result) -> Section | None:
    """Section of the page."""
    if factors(result) is None:
        return None
    shown = ranked(result)
    grid, table = factors(shown), shown.tables["factors"]
    if grid is None or not any(_numbers(table, name) for name in table.columns):
        return None
    figures = (draw_variants(table),)
    return Section(36, "variants-section", "Variants", "figures.html", None, figures, (grid,))
