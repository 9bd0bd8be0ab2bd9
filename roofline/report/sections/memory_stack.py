"""Memory of one device by part, and what is left or missing."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from roofline.report.figures import axis, bars, colour, layout, linear_ticks, lines, note, rule
from roofline.table import Result
from roofline.units import PREFIX
from roofline.view.block import Figure, Key, Section
from roofline.view.tables import FREE, shown
from roofline.view.text import binary, label, percent

RESERVED: Final = "not used by the engine"
TINTS: Final = {
    "weights": "weights",
    "KV cache": "kv",
    "activations": "activations",
    "runtime": "runtime",
    "CUDA graphs": "graphs",
    "layers being loaded": "host",
}


class MemoryPart(Struct, frozen=True):
    """Something that takes memory. [B]"""

    name: str
    bytes: float
    share: float
    known: str


class MemoryFacts(Struct, frozen=True):
    """Memory of one device. [B]"""

    parts: tuple[MemoryPart, ...]
    """Parts that take memory, those of size 0 left out."""
    used: float
    """Sum of the parts."""
    budget: float
    """Memory that the engine may use."""
    capacity: float
    """Size of the device."""
    free: float
    """Budget less use; negative is how much is missing."""


def memory_facts(result: Result) -> MemoryFacts:
    """Parts, budget and capacity of one device."""
    rows = [
        MemoryPart(
            str(row["part"]), float(row["bytes"]), float(row["share"]), str(row.get("known", ""))
        )
        for row in result.tables["memory"].rows()
    ]
    named = {part.name: part.bytes for part in rows}
    parts = tuple(part for part in rows if part.name not in (FREE, RESERVED) and part.bytes > 0)
    used = sum(part.bytes for part in parts)
    free, reserved = named.get(FREE, 0.0), named.get(RESERVED, 0.0)
    budget = used + free
    return MemoryFacts(parts, used, budget, budget + reserved, free)


def draw_memory(facts: MemoryFacts) -> Figure:
    """One bar, with the limits of engine and device as lines."""
    data = [_segment(part) for part in facts.parts]
    if facts.free > 0:
        data.append(_rest(FREE, facts.used, facts.free))
    if facts.capacity > max(facts.budget, facts.used):
        start = max(facts.budget, facts.used)
        data.append(_rest(RESERVED, start, facts.capacity - start, "/"))
    limits = [("device", facts.capacity)]
    if facts.budget < facts.capacity * 0.999:
        limits.insert(0, ("engine's limit", facts.budget))
    most = max(facts.capacity, facts.used)
    shapes = [
        rule(_gib(value), "ink", "solid" if name == "device" else "dash", width=2)
        for name, value in limits
    ]
    if facts.free < 0:  # a frame around what is over the limit
        frame = {"fillcolor": colour("bad", 0.12), "line": {"color": colour("bad"), "width": 2}}
        sides = {"x0": _gib(facts.budget), "x1": _gib(facts.used), "y0": 0, "y1": 1}
        shapes.append({"type": "rect", **sides, "yref": "paper", **frame})
    annotations = [
        note(
            f"{name} {binary(value)}",
            _gib(value),
            1.0,
            yref="paper",
            yanchor="bottom",
            xanchor="left" if value < 0.3 * most else "right",
            yshift=2 + 15 * (len(limits) - 1 - place),
        )
        for place, (name, value) in enumerate(limits)
    ]
    ticks = linear_ticks(_gib(most), "")["tickvals"]
    named = [f"{value:g} GiB" if value else "0" for value in ticks]
    spec = {
        "data": data,
        "layout": layout(
            132,
            barmode="stack",
            margin={"l": 12, "r": 16, "t": 44, "b": 8},
            xaxis=axis("", range=[0, _gib(most) * 1.02], tickvals=ticks, ticktext=named),
            yaxis=axis("", showticklabels=False, showgrid=False, ticks="", range=[-0.6, 0.6]),
            shapes=shapes,
            annotations=annotations,
        ),
    }
    return Figure("memory-stack", "Memory of one device", _summary(facts), spec, _legend(facts))


def _legend(facts: MemoryFacts) -> tuple[Key, ...]:
    keys = [
        Key(f"{part.name} {binary(part.bytes)}", TINTS.get(part.name, "rest"))
        for part in facts.parts
    ]
    if facts.free > 0:
        keys.append(Key(f"{FREE} {binary(facts.free)}", "surface", "open"))
    if facts.free < 0:
        keys.append(Key(f"no room {binary(-facts.free)}", "bad", "open"))
    if facts.capacity > facts.budget:
        keys.append(Key(f"{RESERVED} {binary(facts.capacity - facts.budget)}", "faint", "hatched"))
    return tuple(keys)


def _gib(value: float) -> float:
    return value / PREFIX["Gi"]


def _segment(part: MemoryPart) -> dict[str, Any]:
    told = (label(part.name), f"{binary(part.bytes)}, {percent(part.share)}", label(part.known))
    tint, edge = TINTS.get(part.name, "rest"), colour("surface")
    look = {"color": colour(tint), "line": {"color": edge, "width": 1}}
    return _bar(f"{label(part.name)} {binary(part.bytes)}", part.bytes, told, look)


def _rest(name: str, start: float, size: float, hatch: str = "") -> dict[str, Any]:
    pattern = {"shape": hatch, "fgcolor": colour("faint"), "size": 8, "solidity": 0.12}
    look = {"color": colour("surface"), "line": {"color": colour("faint"), "width": 1}}
    told, shown = (name, str(binary(size))), f"{name} {binary(size)}"
    return {**_bar(shown, size, told, look | {"pattern": pattern}), "base": [_gib(start)]}


def _bar(name: str, size: float, told: Sequence[str], look: dict[str, Any]) -> dict[str, Any]:
    return bars([_gib(size)], [0], [lines(told)], name=name, width=0.9, marker=look)


def _summary(facts: MemoryFacts) -> str:
    parts = ", ".join(f"{part.name} {binary(part.bytes)}" for part in facts.parts)
    limit = f"{binary(facts.budget)} of {binary(facts.capacity)}"
    if facts.free < 0:
        return f"{binary(-facts.free)} too much for the {limit} that the engine may use: {parts}."
    return f"{binary(facts.used)} of the {limit} that the engine may use: {parts}."


def build(result: Result) -> Section | None:
    """Section of the page."""
    grids = tuple(grid for name in ("memory", "capacity") if (grid := shown(result, name)))
    if not len(result.tables.get("memory", ())):
        return None
    facts = memory_facts(result)
    return Section(50, "memory", "Memory", "memory.html", facts, (draw_memory(facts),), grids)
