"""Other deployments that keep what is promised: what each costs, gives up and gains."""

import math
from dataclasses import dataclass
from typing import Any, Final

from roofline.report.figures import axis, colour, layout, linear_ticks, lines, log_ticks, scatter
from roofline.table import Result, Table
from roofline.view.block import Block, Figure, Key
from roofline.view.questions import grids_of
from roofline.view.text import amount, is_number, label
from roofline.view.words import heading, unit_of, written

ORDER: Final = 63
PRICES: Final = ("usd_per_hour", "gpus")
TABLES: Final = ("deployments", "frontier", "bounds")


@dataclass(frozen=True, slots=True)
class Option:
    """A deployment that nothing cheaper beats in everything."""

    shape: str
    best_in: str
    price: float
    value: float
    chosen: bool


def options(table: Table, metric: str) -> tuple[str, tuple[Option, ...]]:
    """What they are priced in, and options with a value of a metric, the cheapest first."""
    rows = [row for row in table.rows() if is_number(row.get(metric))]
    price = next((name for name in PRICES if all(is_number(row.get(name)) for row in rows)), "gpus")
    found = [
        Option(
            f"{row['gpu']} {row['shape']}, {row['weights']}",
            str(row["best_in"]),
            float(row[price]),
            float(row[metric]),
            bool(row["chosen"]),
        )
        for row in rows
    ]
    return price, tuple(sorted(found, key=lambda option: option.price))


def draw(table: Table, metric: str, statistic: str) -> Figure | None:
    """A metric against the price; None where fewer than two options have it."""
    price, found = options(table, metric)
    if len(found) < 2:
        return None
    unit, values = unit_of(metric), [option.value for option in found]
    edges = min(values) / 1.25, max(values) * 1.25
    most = max(option.price for option in found)
    points = scatter(
        (option.price for option in found),
        values,
        [
            lines(
                [
                    label(option.shape, 48),
                    f"{written(price, option.price)}, {amount(option.value, unit)}",
                    f"best in {label(option.best_in, 48)}",
                ]
            )
            for option in found
        ],
        marker={
            "size": [14 if option.chosen else 9 for option in found],
            "symbol": ["star" if option.chosen else "circle" for option in found],
            "color": [colour("decode") if option.chosen else colour("prefill") for option in found],
            "opacity": 1,
        },
    )
    figure: dict[str, Any] = layout(280)
    title = "Price of all GPUs [$/h]" if price == "usd_per_hour" else "GPUs"
    figure["xaxis"] = axis(title, range=[0, most * 1.08], **linear_ticks(most, ""))
    name = heading(statistic or metric)
    ends = [math.log10(edge) for edge in edges]
    figure["yaxis"] = axis(label(name), type="log", range=ends, **log_ticks(*edges, unit))
    cheapest = found[0]
    return Figure(
        f"frontier-{metric.removesuffix('_s')}",
        f"{name} against price",
        f"Cheapest: {cheapest.shape} with {amount(cheapest.value, unit)}; the least of these is "
        f"{amount(min(values), unit)}. From curves of one replica, a little on the safe side; the "
        "verdict and the runners-up were simulated whole.",
        {"data": [points], "layout": figure},
        (
            Key("recommended", "decode", "star"),
            Key("nothing cheaper is as good", "prefill", "circle"),
        ),
    )


def build(result: Result) -> Block | None:
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
    return Block("alternatives", "Alternatives", "figures.html", None, figures, grids)
