"""Two pools: their instances, what goes between them, and what each part carries."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roofline.report.figures import (
    FONT_SIZE,
    bars,
    colour,
    layout,
    linear_axis,
    lines,
    name_axis,
    note,
    scatter,
)
from roofline.report.statuses import spoken_layout
from roofline.table import Result
from roofline.units import significant
from roofline.view.block import Figure, Key, Section
from roofline.view.text import amount, is_number, label, percent

TINTS: Final = {"prefill": "prefill", "decode": "decode"}
MOST_ROWS: Final = 8
"""Instances that are drawn one by one. [1]"""
MOST_GPUS: Final = 16
"""GPUs of an instance that are drawn one by one. [1]"""
CROWDED: Final = 8
"""GPUs of an instance from which on they are drawn small. [1]"""
ROW: Final = 26
"""Height of an instance. [px]"""


def draw_pools(pools: Sequence[Mapping[str, Any]], sent: Mapping[str, float]) -> Figure:
    """A row of squares for each instance, a square for each GPU; the cache that goes across."""
    rows = max(min(row["instances"], MOST_ROWS) + (row["instances"] > MOST_ROWS) for row in pools)
    data, names, shapes = [], [], []
    for pool, row in enumerate(pools):
        left, right = (0.0, 0.37) if pool == 0 else (0.63, 1.0)
        drawn, gpus = min(row["instances"], MOST_ROWS), min(row["gpus"], MOST_GPUS)
        step = (right - left) / max(gpus, 6)
        x, y = [], []
        for number in range(drawn):
            x += [left + (at + 0.5) * step for at in range(gpus)]
            y += [-(number + 0.5)] * gpus
        tint = colour(TINTS.get(str(row["pool"]), "rest"))
        data.append(
            scatter(
                x,
                y,
                [f"{label(row['pool'])}: a GPU of {label(spoken_layout(row['layout']))}"] * len(x),
                name=label(row["pool"]),
                marker={
                    "symbol": "square",
                    "size": 13 if gpus <= CROWDED else 6,
                    "color": tint,
                    "opacity": 1,
                },
            )
        )
        said = [
            f"{label(row['pool']).capitalize()}: {row['instances']} × "
            f"{label(spoken_layout(row['layout']))}",
            f"{label(row['gpu'])}",
            f"{significant(row['requests_per_s'])} requests/s",
        ]
        names.append(_text(lines(said), left, 0.15, "left", "bottom", "ink"))
        more = []
        if row["instances"] > drawn:
            more.append(f"and {row['instances'] - drawn} more")
        if row["gpus"] > gpus:
            more.append(f"{row['gpus']} GPUs each")
        if more:
            names.append(_text(", ".join(more), left, -(drawn + 0.1), "left", "top", "muted"))
        shapes += [
            {
                "type": "rect",
                "x0": left,
                "x1": left + gpus * step,
                "y0": -number - 0.9,
                "y1": -number - 0.1,
                "line": {"color": colour("faint"), "width": 1},
                "layer": "below",
            }
            for number in range(drawn)
        ]
    head = {"symbol": "triangle-right", "size": [0, 11], "color": colour("wire"), "opacity": 1}
    wire = {"color": colour("wire"), "width": 2}
    across = scatter((0.42, 0.57), (-1.1, -1.1), mode="lines+markers", line=wire, marker=head)
    data.append(across | {"name": "KV cache"})
    handed = [amount(sent[name], unit) for name, unit in (("cache", "B"), ("time", "s"))]
    below = lines([str(handed[0]), f"in {handed[1]}"])
    names += [
        _text("KV cache", 0.5, -0.8, "center", "bottom", "wire"),
        _text(below, 0.5, -1.4, "center", "top", "muted"),
    ]
    bare = {"visible": False, "fixedrange": True}
    height = 78 + ROW * max(rows, 3)
    spec = {
        "data": data,
        "layout": layout(
            height,
            xaxis={**bare, "range": [-0.01, 1.01]},
            yaxis={**bare, "range": [-max(rows, 3) - 0.6, 2.4]},
            shapes=shapes,
            annotations=names,
        ),
    }
    first, rest = pools
    return Figure(
        "pools",
        "Pools, and what goes between them",
        f"{first['instances']} × {spoken_layout(first['layout'])} for prompts and "
        f"{rest['instances']} × {spoken_layout(rest['layout'])} for answers; {handed[0]} of cache "
        f"go across for each prompt, in {handed[1]}. A square is a GPU.",
        spec,
        tuple(Key(str(row["pool"]), TINTS.get(str(row["pool"]), "rest")) for row in pools),
    )


def _text(text: str, x: float, y: float, side: str, upright: str, tint: str) -> dict[str, Any]:
    """Words beside a place."""
    font = {"size": FONT_SIZE - 1, "color": colour(tint)}
    return note(text, x, y, xanchor=side, yanchor=upright, align="left", font=font)


def draw_carried(parts: Sequence[tuple[str, str, float]]) -> Figure:
    """Requests a second that each part can carry: the shortest bar sets the pace."""
    names, rates = [name for name, _, _ in parts], [rate for _, _, rate in parts]
    least = min(rates)
    # The interconnect often carries many times as much; then its bar goes to the edge.
    end = min(max(rates), 2.5 * sorted(rates)[1])
    shown = [min(rate, end) for rate in rates]
    spec = {
        "data": [
            bars(
                shown,
                range(len(parts)),
                [f"{label(name)}: {significant(rate)} requests/s" for name, _, rate in parts],
                name="requests/s",
                width=0.55,
                text=[f"{significant(rate)}{' →' if rate > end else ''}" for rate in rates],
                textposition="inside",
                insidetextanchor="start",
                insidetextfont={"color": colour("surface")},
                constraintext="none",
                marker={"color": [colour(tint) for _, tint, _ in parts]},
            )
        ],
        "layout": layout(
            78 + ROW * 5,
            xaxis=linear_axis("Requests a second", "", end * 1.02, end),
            yaxis=name_axis(names, len(parts) - 0.5, -0.5, showgrid=False),
            shapes=[
                {
                    "type": "line",
                    "x0": least,
                    "x1": least,
                    "y0": 0,
                    "y1": 1,
                    "yref": "paper",
                    "line": {"color": colour("bad"), "width": 1.5, "dash": "dash"},
                }
            ],
        ),
    }
    said = "; ".join(
        f"{name} {significant(rate)} ({percent(least / rate)} in use)" for name, _, rate in parts
    )
    return Figure(
        "carried",
        "What each part carries, in requests a second",
        f"{said}. The shortest bar sets the pace.",
        spec,
        (Key("the least: what is served", "bad", "stem"),),
    )


def build(result: Result) -> Section | None:
    """Section of the page."""
    pools = result.rows("pools")
    sent = {str(row["what"]): row["value"] for row in result.rows("transfer")}
    known = len(pools) == 2 and all(is_number(sent.get(name)) for name in ("cache", "time"))
    if not known or not all(is_number(row.get("requests_per_s")) for row in pools):
        return None
    least = min(row["requests_per_s"] for row in pools)
    parts = [(f"{row['pool']} pool", TINTS[row["pool"]], row["requests_per_s"]) for row in pools]
    if is_number(used := sent.get("utilisation")) and used > 0:
        parts.insert(1, ("KV transfer", "wire", least / used))
    figures = (draw_pools(pools, sent), draw_carried(parts))
    return Section(30, "pools-section", "Pools", "figures.html", None, figures)
