"""A comparison's answer: which variant has the best figures, and by how much."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roofline.report.lanes import rank
from roofline.report.sections.variants import FIGURES
from roofline.table import Result
from roofline.view.block import Card, Section, Verdict
from roofline.view.known import MEANINGS
from roofline.view.tables import speed
from roofline.view.text import clean, interval, is_number
from roofline.view.words import MORE, heading, mid, unit_of, written

SAME: Final = 0.005
"""Share by which two figures are apart, below which they are told as the same. [1]"""

Row = Mapping[str, Any]


def winner(rows: Sequence[Row], name: str) -> Row:
    """The variant with the best of a figure; the first, like the base, where nothing is better."""
    best = min(rows, key=lambda row: rank(row[name], name in MORE))
    near = abs(best[name] / rows[0][name] - 1.0) < SAME
    return rows[0] if near else best


def compare_verdict(result: Result) -> Verdict:
    """Verdict of a comparison, over the variants that fit in memory."""
    every = result.rows("variants")
    *names, price = FIGURES["steady" if result.metadata.get("rank") == "steady" else "static"]
    rows = [row for row in every if row["fits"]]
    known = [
        n for n in (price, *names) if rows and all(is_number(row.get(n)) and row[n] for row in rows)
    ]
    over = [f"{clean(row['variant'])} does not fit in memory." for row in every if not row["fits"]]
    if not known:
        return Verdict("None fits in memory" if not rows else "", bool(rows), tuple(over))
    best = {name: winner(rows, name) for name in known}
    first, base = best[known[0]], every[0]
    alone = all(row is first for row in best.values())
    status = f"Best in all: {_named(first, every)}" if alone else "None is best in all"
    if alone and first is base and len(rows) > 1:
        status = f"Nothing is better than {_named(first, every)}"
    given, basis = result.metadata, str(result.metadata.get("basis") or "")
    return Verdict(
        status,
        good=True,
        sentences=(*(_said(name, best[name], rows, every) for name in known), *over),
        cards=tuple(_card(name, first, base) for name in known),
        at=f"batch {given['batch']:,}, {given['prompt']:,} → {given['output']:,} tokens",
        known=(basis, MEANINGS.get(basis, "")),
    )


def _named(row: Row, every: Sequence[Row]) -> str:
    return f"{'the base, ' if row is every[0] else ''}{clean(row['variant'])}"


def _said(name: str, best: Row, rows: Sequence[Row], every: Sequence[Row]) -> str:
    """Best of a figure beside the base, or beside the next best where the base is the best."""
    most = name in MORE
    other = rows[0]
    if best is other:
        rest = [row for row in rows if row is not best]
        if not rest:
            return f"{heading(name)}: {written(name, best[name])}."
        other = min(rest, key=lambda row: rank(row[name], most))
    factor = best[name] / other[name]
    apart = "the same as" if abs(factor - 1.0) < SAME else f"× {factor:.2f} of"
    every_end = (row.get(f"{name}_{end}") for row in (best, other) for end in ("low", "high"))
    ends = [end for end in every_end if is_number(end)]
    overlap = len(ends) == 4 and max(ends[::2]) <= min(ends[1::2]) and ends[0] < ends[1]
    close = "; their 80 % intervals overlap" if overlap else ""
    return (
        f"{'Most' if most else 'Least'} {mid(heading(name))}: {_named(best, every)}, "
        f"{written(name, best[name])}, {apart} {_named(other, every)}{close}."
    )


def _card(name: str, best: Row, base: Row) -> Card:
    said: tuple[str, ...] = ("the base",) if best is base else ()
    if not said and is_number(base.get(name)) and base[name]:  # also of a base that does not fit
        said = (f"× {best[name] / base[name]:.2f} of the base",)
    return Card(
        clean(heading(name)),
        written(name, best[name]),
        interval(best.get(f"{name}_low"), best.get(f"{name}_high"), unit_of(name)),
        said,
    )


def build(result: Result) -> Section | None:
    """Section of the page."""
    if not {"variants", "factors"} <= result.tables.keys() or not result.rows("variants"):
        return None
    grid = speed(result)
    grids = () if grid is None else (grid,)
    facts = compare_verdict(result)
    return Section(10, "verdict", "Verdict", "answer.html", facts, grids=grids)
