"""Other deployments that keep the SLO: what each costs, gives up and gains."""

from collections.abc import Mapping
from typing import Any, Final

from roofline.report.figures import colour, layout, linear_axis, lines, log_axis, scatter
from roofline.table import Result, Table
from roofline.view.block import Figure, Key, Section
from roofline.view.questions import grids_of
from roofline.view.text import amount, is_number, label
from roofline.view.words import heading, unit_of, written

PRICES: Final = ("usd_per_hour", "gpus")
TABLES: Final = ("deployments", "frontier", "bounds")


def draw(table: Table, metric: str, statistic: str) -> Figure | None:
    """A metric against the price; None where fewer than two deployments have it."""
    found = [row for row in table.rows() if is_number(row.get(metric))]
    if len(found) < 2:
        return None
    price = next((name for name in PRICES if all(is_number(r.get(name)) for r in found)), "gpus")
    found.sort(key=lambda row: float(row[price]))
    unit, values = unit_of(metric), [row[metric] for row in found]
    edges = min(values) / 1.25, max(values) * 1.25
    most, chosen = found[-1][price], [bool(row["chosen"]) for row in found]
    points = scatter(
        (row[price] for row in found),
        values,
        [
            lines(
                [
                    label(_named(row), 48),
                    f"{written(price, float(row[price]))}, {amount(row[metric], unit)}",
                    f"best in {label(row['best_in'], 48)}",
                ]
            )
            for row in found
        ],
        marker={
            "size": [14 if best else 9 for best in chosen],
            "symbol": ["star" if best else "circle" for best in chosen],
            "color": [colour("decode" if best else "prefill") for best in chosen],
            "opacity": 1,
        },
    )
    figure: dict[str, Any] = layout(280)
    title = "Price of all GPUs [$/h]" if price == "usd_per_hour" else "GPUs"
    figure["xaxis"] = linear_axis(title, "", most * 1.08, most)
    name = heading(statistic or metric)
    figure["yaxis"] = log_axis(label(name), *edges, unit)
    cheapest = found[0]
    return Figure(
        f"frontier-{metric.removesuffix('_s')}",
        f"{name} against price",
        f"Cheapest: {_named(cheapest)} with {amount(cheapest[metric], unit)}; the least of these "
        f"is {amount(min(values), unit)}. From curves of one replica, a little on the safe side; "
        "the verdict and the runners-up were simulated whole.",
        {"data": [points], "layout": figure},
        (
            Key("recommended", "decode", "star"),
            Key("nothing cheaper is as good", "prefill", "circle"),
        ),
    )


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['gpu']} {row['shape']}, {row['weights']}"


def build(result: Result) -> Section | None:
    """Section of the page."""
    table, given = result.tables.get("frontier"), result.metadata
    figures: tuple[Figure, ...] = ()
    if table is not None and len(table):
        drawn = (
            draw(table, f"{name}_s", str(given.get(f"{name}_statistic", "")))
            for name in ("ttft", "tpot")
        )
        figures = tuple(figure for figure in drawn if figure is not None)
    grids = tuple(grid for name in TABLES for grid in grids_of(result, name))
    if not grids:
        return None
    return Section(14, "alternatives", "Alternatives", "figures.html", None, figures, grids)
