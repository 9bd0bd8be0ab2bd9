"""TTFT, TPOT and throughput against batch, and where memory ends."""

import math
from typing import Any, Final

from msgspec import Struct

from roofline.report.figures import axis, colour, layout, lines, log_axis, note, rule, scatter
from roofline.table import Result, Table
from roofline.view.block import Figure, Key, PageTable, Section
from roofline.view.grids import grid
from roofline.view.known import calibrated
from roofline.view.text import amount, between, is_number, plain

PANEL_HEIGHT: Final = 190
"""Height of one panel with its gap. [px]"""
PANELS: Final = (
    ("ttft_s", "TTFT", "s", "prefill"),
    ("tpot_s", "TPOT", "s", "decode"),
    ("throughput_tok_s", "Throughput", "token/s", "ink"),
)


class Panel(Struct, frozen=True):
    """One metric against batch."""

    name: str
    unit: str
    tint: str
    values: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """Ends of the central 80 %; empty at datasheet rates."""

    @property
    def edges(self) -> tuple[float, float]:
        """Least and most of what is drawn."""
        return min(self.low or self.values), max(self.high or self.values)


class BatchFacts(Struct, frozen=True):
    """Curves over the batch."""

    batches: tuple[int, ...]
    panels: tuple[Panel, ...]
    fits: tuple[bool, ...]
    """True where a batch fits in memory."""
    most: int | None
    """Largest batch that fits; 0 if none does, None if all shown do."""
    current: int | None
    """Batch asked for; None where it is not known."""
    calibrated: bool


def batch_facts(result: Result) -> BatchFacts:
    """Curves of the metrics that exist; a single token has no TPOT."""
    table = result.tables["batch_curve"]
    batches = tuple(int(value) for value in table["batch"])
    fits = tuple(bool(value) for value in table["fits"])
    panels = tuple(
        Panel(name, unit, tint, table[key], *_ends(result, key))
        for key, name, unit, tint in PANELS
        if key in table.columns and all(value > 0 for value in table[key])
    )
    current = result.metadata.get("batch")
    return BatchFacts(
        batches,
        panels,
        fits,
        _most(result, batches, fits),
        int(current) if is_number(current) and current in batches else None,
        calibrated(result),
    )


def _ends(result: Result, key: str) -> tuple[tuple[float, ...], ...]:
    """Ends of the central 80 % of a metric at each batch, if there are any."""
    table = result.tables["batch_curve"]
    if not calibrated(result) or f"{key}_low" not in table.columns:
        return ()
    return table[f"{key}_low"], table[f"{key}_high"]


def _most(result: Result, batches: tuple[int, ...], fits: tuple[bool, ...]) -> int | None:
    """Largest batch that fits: as counted where it was, else the largest that was tried."""
    if all(fits):
        return None
    tried = max((batch for batch, fit in zip(batches, fits, strict=True) if fit), default=0)
    beyond = min(batch for batch, fit in zip(batches, fits, strict=True) if not fit)
    for row in result.rows("capacity"):
        if row["limit"] == "largest batch" and tried <= row["value"] < beyond:
            return int(row["value"])
    return tried


def draw_batch(facts: BatchFacts) -> Figure:
    """Panels below each other over one batch axis."""
    count = len(facts.panels)
    gap = 0.26 / count
    span = (1 - gap * (count - 1)) / count
    edges = [math.log10(facts.batches[0]) - 0.06, math.log10(facts.batches[-1]) + 0.1]
    data, annotations = [], []
    figure: dict[str, Any] = layout(64 + PANEL_HEIGHT * count, hovermode="x")
    figure["margin"] |= {"t": 30}
    for place, panel in enumerate(facts.panels):
        tail = str(place + 1) if place else ""
        top = 1 - place * (span + gap)
        data += [*_band(facts, panel, tail), _curve(facts, panel, tail)]
        low, high = panel.edges[0] / 1.3, panel.edges[1] * 1.3
        domain = [max(0.0, top - span), top]
        figure[f"yaxis{tail}"] = log_axis("", low, high, panel.unit, domain=domain)
        annotations.append(
            note(
                panel.name,
                0,
                top,
                xref="paper",
                yref="paper",
                xanchor="left",
                yanchor="bottom",
                yshift=4,
                font={"size": 13, "color": colour(panel.tint)},
            )
        )
        annotations += _here(facts, panel, tail)
    figure["xaxis"] = axis(
        "Batch [sequences]",
        type="log",
        range=edges,
        tickvals=_ticks(facts.batches),
        ticktext=[plain(value, 6) for value in _ticks(facts.batches)],
        anchor=f"y{count if count > 1 else ''}",
    )
    figure["shapes"], names = _regions(facts, edges)
    figure["annotations"] = annotations + names
    return Figure(
        "batch-curve",
        _title(facts),
        _summary(facts),
        {"data": data, "layout": figure},
        (Key("central 80 %", "muted", "band"),) if facts.calibrated else (),
    )


def _title(facts: BatchFacts) -> str:
    names = [panel.name if panel.name.isupper() else panel.name.lower() for panel in facts.panels]
    first = ", ".join(names[:-1])
    title = f"{first} and {names[-1]}" if first else names[-1]
    return title[:1].upper() + title[1:]


def _ticks(batches: tuple[int, ...]) -> list[int]:
    """Powers of two, thinned until they can be read."""
    powers = [batch for batch in batches if batch & (batch - 1) == 0]
    return powers[:: max(1, math.ceil(len(powers) / 11))]


def _band(facts: BatchFacts, panel: Panel, tail: str) -> list[dict[str, Any]]:
    """The central 80 %, under the curve."""
    if not panel.low:
        return []
    look: dict[str, Any] = {"xaxis": "x", "yaxis": f"y{tail}"}
    look |= {"line": {"color": colour(panel.tint, 0.35), "width": 1}}
    filled = {"fill": "tonexty", "fillcolor": colour(panel.tint, 0.18)}
    low = scatter(facts.batches, panel.low, mode="lines", **look)
    return [low, scatter(facts.batches, panel.high, mode="lines", **look, **filled)]


def _curve(facts: BatchFacts, panel: Panel, tail: str) -> dict[str, Any]:
    return scatter(
        facts.batches,
        panel.values,
        [_hover(facts, panel, place) for place in range(len(facts.batches))],
        "lines+markers",
        name=panel.name,
        xaxis="x",
        yaxis=f"y{tail}",
        line={"color": colour(panel.tint), "width": 2},
        marker={
            "opacity": 1,
            "size": [11 if batch == facts.current else 6 for batch in facts.batches],
            "symbol": ["circle" if fit else "circle-open" for fit in facts.fits],
            "color": colour(panel.tint),
            "line": {"color": colour(panel.tint), "width": 1.5},
        },
    )


def _hover(facts: BatchFacts, panel: Panel, place: int) -> str:
    told = [f"batch {plain(facts.batches[place], 6)}: {amount(panel.values[place], panel.unit)}"]
    if panel.low:
        told.append(f"80 % in {between(panel.low[place], panel.high[place], panel.unit)}")
    return lines(told if facts.fits[place] else [*told, "does not fit in memory"])


def _here(facts: BatchFacts, panel: Panel, tail: str) -> list[dict[str, Any]]:
    """Value at the batch that was asked for."""
    if facts.current is None:
        return []
    place = facts.batches.index(facts.current)
    late = place > len(facts.batches) / 2
    return [
        note(
            str(amount(panel.values[place], panel.unit)),
            math.log10(facts.current),
            math.log10(panel.values[place]),
            yref=f"y{tail}",
            xanchor="right" if late else "left",
            yanchor="bottom" if late else "top",
            xshift=-8 if late else 8,
            yshift=4 if late else -4,
            font={"size": 12, "color": colour("ink")},
        )
    ]


def _regions(facts: BatchFacts, edges: list[float]) -> tuple[list[Any], list[Any]]:
    """Shapes and names of the end of memory and of the batch that was asked for."""
    shapes, names = [], []
    if facts.most is not None:
        start = math.log10(facts.most) if facts.most else edges[0]
        shapes.append(
            {
                "type": "rect",
                "x0": 10**start,
                "x1": 10 ** edges[1],
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "layer": "below",
                "fillcolor": colour("bad", 0.12),
                "line": {"width": 0},
            }
        )
        text = f"does not fit beyond {plain(facts.most, 6)}" if facts.most else "does not fit"
        names.append(
            note(
                text,
                edges[1],
                1,
                yref="paper",
                xanchor="right",
                yanchor="bottom",
                yshift=4,
                font={"size": 12, "color": colour("bad")},
            )
        )
    if facts.current is not None:
        shapes.append(rule(facts.current))
    return shapes, names


def _summary(facts: BatchFacts) -> str:
    ends = (0, len(facts.batches) - 1)
    moves = "; ".join(
        f"{panel.name} from {amount(panel.values[ends[0]], panel.unit)} to "
        f"{amount(panel.values[ends[1]], panel.unit)}"
        for panel in facts.panels
    )
    text = f"From batch {plain(facts.batches[0], 6)} to {plain(facts.batches[-1], 6)}: {moves}."
    if facts.calibrated and facts.current is not None:
        text += _here_in_words(facts, facts.batches.index(facts.current))
    if facts.most is None:
        return f"{text} All of them fit in memory."
    return (
        f"{text} Beyond batch {plain(facts.most, 6)} memory is too small."
        if facts.most
        else f"{text} None of them fits in memory."
    )


def _here_in_words(facts: BatchFacts, place: int) -> str:
    ranges = ", ".join(
        f"{panel.name} {between(panel.low[place], panel.high[place], panel.unit)}"
        for panel in facts.panels
        if panel.low
    )
    return f" The central 80 % at batch {plain(facts.batches[place], 6)}: {ranges}."


def _grid(table: Table, predicted: bool) -> PageTable:
    ends = "{0}, {0}_low" if predicted else "{0}"
    metrics = ("ttft_s", "tpot_s", "latency_s", "throughput_tok_s", "user_tok_s")
    columns = ", ".join(ends.format(name) for name in metrics)
    title = "Against batch, predicted" if predicted else "Against batch, with perfect overlap"
    return grid("batch-table", title, table, f"batch, {columns}, fits=Memory")


def build(result: Result) -> Section | None:
    """Section of the page."""
    if "batch_curve" not in result.tables or not len(result.tables["batch_curve"]):
        return None
    facts = batch_facts(result)
    figures = (draw_batch(facts),) if facts.panels else ()
    return Section(
        60,
        "batch",
        "Against batch",
        "batch.html",
        facts,
        figures,
        (_grid(result.tables["batch_curve"], facts.calibrated),),
    )
