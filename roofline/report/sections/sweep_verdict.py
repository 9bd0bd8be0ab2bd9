"""A sweep's answer: the best configuration for each aim, and what it does."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from roofline.report.lanes import rank
from roofline.table import Result, Table, table
from roofline.view.block import Card, PageTable, Section, Verdict
from roofline.view.grids import grid
from roofline.view.known import MEANINGS, is_bound
from roofline.view.text import amount, clean, interval, is_number
from roofline.view.words import heading, mid, unit_of, written

NAMES: Final = ("model", "gpu", "layout", "weights", "kv", "technique", "patch")
"""Names that identify a configuration."""
WORDS: Final = {"weights": "weights", "kv": "KV cache"}
PLAIN: Final = frozenset({"", "plain", "auto", None})
"""Names that say nothing."""
NUMBERS: Final = ("batch", "rate_per_s", "concurrency", "prompt", "output")
CARDS: Final = (
    *("gpus", "usd_per_mtok", "ttft_idle_s", "ttft_p99_s", "ttft_s"),
    *("tpot_steady_s", "tpot_p99_s", "tpot_s"),
    *("throughput_per_gpu_tok_s", "output_per_gpu_tok_s"),
)
SHOWN: Final = 6
"""Cards at most. [1]"""
FELT: Final = {"ttft_s": "ttft_idle_s", "tpot_s": "tpot_steady_s"}
"""Times of a batch whose prompts all arrive at once, and what a user of a server feels instead."""


class Winner(Struct, frozen=True):
    """The best configuration for an aim, of one scenario."""

    scenario: str
    aim: str
    row: Mapping[str, Any]


def winners(result: Result) -> tuple[Winner, ...]:
    """The best configuration that keeps all limits for each aim, scenario by scenario."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in result.tables["points"].rows():
        if row.get("feasible", True):
            rows.setdefault(str(row.get("scenario") or ""), []).append(row)
    found = []
    for scenario, mine in rows.items():
        aims = _aims(result, scenario)
        for place, (name, largest) in enumerate(aims):
            # What is wanted first decides between those that are as good; a bound is no forecast.
            order = [(name, largest), *(aim for aim in aims if aim != aims[place])]
            best = min(
                mine,
                key=lambda row: [is_bound(row), *(rank(row.get(n), most) for n, most in order)],
            )
            if is_number(best.get(name)):
                aim = f"{'most' if largest else 'least'} {mid(heading(name))}"
                found.append(Winner(scenario, aim, best))
    return tuple(found)


def _aims(result: Result, scenario: str) -> list[tuple[str, bool]]:
    """Objectives of a scenario: columns, and whether more is better."""
    each = result.metadata.get("objectives_of")
    said = each.get(scenario) if isinstance(each, dict) else None
    return [(str(name), bool(most)) for name, most in said or result.metadata.get("objectives", ())]


def sweep_verdict(result: Result, best: Sequence[Winner]) -> Verdict:
    """Verdict of a sweep; none of several scenarios, which may want different things."""
    row: Mapping[str, Any] = best[0].row if best and not best[0].scenario else {}
    basis = str(row.get("basis") or "")
    status = f"Best: {named(row)}" if row else "" if best else "No configuration keeps all limits"
    return Verdict(
        status,
        good=bool(best),
        cards=_cards(row, result) if row else (),
        at=_at(row),
        known=(basis, MEANINGS.get(basis, "")),
        asked=tuple(str(sentence) for sentence in result.metadata.get("summary", ())),
    )


def named(row: Mapping[str, Any]) -> str:
    """A configuration in words.

    >>> named({"model": "llama-3.1-8b", "gpu": "h100-sxm", "gpus": 2, "weights": "fp8"})
    'llama-3.1-8b on 2 × h100-sxm, fp8 weights'
    """
    said = {name: clean(row.get(name)) for name in NAMES if row.get(name) not in PLAIN}
    number, device = row.get("gpus"), said.pop("gpu", "")
    several = f"{number} × " if is_number(number) and number != 1 else ""
    first = " on ".join(part for part in (said.pop("model", ""), f"{several}{device}") if part)
    rest = [f"{text} {WORDS[name]}" if name in WORDS else text for name, text in said.items()]
    return ", ".join(part for part in (first, *rest) if part)


def _at(row: Mapping[str, Any]) -> str:
    shown = [name for name in NUMBERS if is_number(row.get(name))]
    return ", ".join(f"{mid(heading(name))} {written(name, row[name])}" for name in shown)


def _cards(row: Mapping[str, Any], result: Result) -> tuple[Card, ...]:
    limits = result.metadata.get("limits")
    limits = limits if isinstance(limits, dict) else {}
    names = [name for name in _figures(result, [row]) if is_number(row.get(name))]
    names = [name for name in names if f"{name.removesuffix('_s')}_p99_s" not in names]
    return tuple(
        Card(
            heading(name),
            written(name, row[name]),
            interval(row.get(f"{name}_low"), row.get(f"{name}_high"), unit_of(name)),
            (f"limit: {amount(limits[name], unit_of(name))}",) if name in limits else (),
        )
        for name in names[:SHOWN]
    )


def _figures(result: Result, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Figures to show of some rows: a static batch's where it is asked about, or alone is known."""
    wanted = {str(name) for name, _ in result.metadata.get("objectives", ())}
    wanted |= set(result.metadata.get("limits") or {})
    known = {name for name in CARDS if any(is_number(row.get(name)) for row in rows)}
    return [name for name in CARDS if name in wanted or FELT.get(name) not in known]


def _grid(best: Sequence[Winner], points: Table, result: Result) -> PageTable:
    """Winners beside each other."""
    shown = [name for name in _figures(result, [each.row for each in best]) if name != "gpus"]
    rows = [
        {
            "scenario": each.scenario,
            "aim": each.aim,
            "configuration": ", ".join(part for part in (named(each.row), _at(each.row)) if part),
            **{name: each.row.get(name) for name in shown},
            "basis": str(each.row.get("basis") or ""),
        }
        for each in best
    ]
    units = {name: column.unit for name, column in points.columns.items()}
    columns = ", ".join("aim=Wanted" if name == "aim" else name for name in rows[0])
    title = "The best for each aim that keeps all limits"
    return grid("winners", title, table(rows, units), columns)


def build(result: Result) -> Section | None:
    """Section of the page; where there are other figures, what was swept is beside them."""
    points = result.tables.get("points")
    if points is None or "headline" in result.tables:
        return None
    best = winners(result) if len(points) else ()
    grids = (_grid(best, points, result),) if len(best) > 1 else ()
    return Section(
        10, "verdict", "Verdict", "answer.html", sweep_verdict(result, best), grids=grids
    )
