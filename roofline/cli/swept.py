"""Result of a sweep as text: counts, what all rows have in common, and the best rows."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from roofline.cli.render import (
    OutputFormat,
    echo,
    print_columns,
    print_grid,
    print_json,
    print_notes,
    print_rows,
)
from roofline.table import table
from roofline.units import show
from roofline.view.block import Cell
from roofline.view.grids import grid
from roofline.view.known import is_bound
from roofline.view.terminal import wrap
from roofline.view.text import between
from roofline.view.words import cell, written

if TYPE_CHECKING:
    from roofline.api.sweeps import SweepEstimate
    from roofline.study.scenario.scenario import Scenario
    from roofline.study.sweep_result import Sweep

NAMES: Final = (
    *("model", "gpu", "layout", "weights", "kv", "engine", "technique", "patch", "workload"),
    *("policy", "batch", "prompt", "output", "rate_per_s", "concurrency"),
)
USUAL: Final = {
    "batch": ("ttft_idle_s", "tpot_steady_s", "throughput_per_gpu_tok_s", "usd_per_mtok"),
    "static": ("ttft_s", "tpot_s", "throughput_per_gpu_tok_s", "usd_per_mtok"),
    "traffic": ("load", "ttft_s", "tpot_s", "output_per_gpu_tok_s", "usd_per_mtok"),
}
"""Figures that are printed whatever is asked for."""
INTERVALS: Final = ("ttft_idle_s", "ttft_s", "tpot_s", "tpot_steady_s", "latency_s")
"""Times that are printed with their intervals."""
LOPSIDED: Final = 0.5
"""Upper half of an interval from which on both of its ends are told: it is far from even."""
BOUNDED: Final = {
    **dict.fromkeys((*INTERVALS, "queue_s", "ttft_p99_s", "tpot_p99_s"), "≥"),
    **dict.fromkeys(("usd_per_mtok", "joule_per_mtok"), "≥"),
    **dict.fromkeys(("throughput_tok_s", "throughput_per_gpu_tok_s", "user_tok_s"), "≤"),
    "saturation_per_s": "≤",
    "load": "≥",
}
"""Figures that published rates bound, and the side on which the hardware is."""


def print_sweep(found: "Sweep", style: OutputFormat, top: int) -> None:
    """Print a sweep; CSV and JSON have every column of every row that was kept."""
    if style is OutputFormat.JSON:
        print_json("sweep", to_json(found), _notes(found))
        return
    from roofline.study.rows import columns

    rows = found.ranked(0 if style is OutputFormat.CSV else top)
    if style is OutputFormat.CSV:
        print_columns(table(rows, columns(found.scenario)), style, "")
        return
    if style is OutputFormat.TABLE:
        for line in (found.scenario.title, "", *found.counted, ""):
            echo(wrap(line))
    _print_rows(found, rows, style)
    print_notes(_notes(found), style)


def spell(seconds: float) -> str:
    """A time as people say it, to the second.

    >>> spell(0.4), spell(75), spell(7260)
    ('less than a second', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 1:
        return "less than a second"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def print_estimate(estimate: "SweepEstimate", style: OutputFormat) -> None:
    """Print how large a sweep is."""
    names = ("configurations", "lanes", "points", "chunks", "seconds", "bytes")
    plain = {name: getattr(estimate, name) for name in names}
    if style is OutputFormat.JSON:
        print_json("sweep", {"scenario": estimate.scenario.name, "dry_run": True, **plain})
        return
    about = "about " if estimate.seconds >= 1.0 else ""
    said = {
        "configurations": f"{estimate.configurations:,}",
        "lanes": f"{estimate.lanes:,} combinations of names",
        "points": f"{estimate.points:,} combinations of numbers in each",
        "chunks": f"{estimate.chunks:,}",
        "time": f"{about}{spell(estimate.seconds)}",
        "result": f"about {show(estimate.bytes, 'B')}",
    }
    if style is OutputFormat.CSV:
        print_rows([[name, str(value)] for name, value in plain.items()], ["what", "value"], style)
        return
    if style is OutputFormat.TABLE:
        echo(wrap(estimate.scenario.title))
        echo("")
        for name, text in said.items():
            echo(f"{name:<14}   {text}")
        return
    print_rows([list(pair) for pair in said.items()], ["what", "value"], style)


def to_json(found: "Sweep") -> dict[str, Any]:
    """A sweep as plain values; figures that are not there are null."""
    scenario = found.scenario
    return {
        "scenario": scenario.name,
        "title": scenario.title,
        "kind": scenario.kind,
        "keep": scenario.keep,
        "objectives": [str(each) for each in scenario.objectives],
        "configurations": found.configurations,
        "counts": dict(found.counts),
        "rows": found.ranked(),
    }


def _print_rows(found: "Sweep", rows: Sequence[dict[str, Any]], style: OutputFormat) -> None:
    from roofline.study.points import missed

    scenario = found.scenario
    if not rows:
        return
    if "saturation_per_s" in rows[0]:
        served = "rate_per_s" if "rate_per_s" in rows[0] else "requests_per_s"
        rows = [{**row, "load": _share(row[served], row["saturation_per_s"])} for row in rows]
    every = table(rows, {})
    common = [name for name in NAMES if name in rows[0] and len({*every[name]} - {None}) < 2]
    if style is OutputFormat.TABLE:
        echo(wrap(f"All of these: {', '.join(_common(name, rows[0][name]) for name in common)}."))
        echo("")
    usual = USUAL["static" if scenario.static else scenario.kind]
    figures = list(dict.fromkeys([*_sizes(rows), *usual, *_asked(scenario)]))
    columns = [*(f"{name}?" for name in NAMES), *figures]
    wanted = " and ".join(str(each) for each in scenario.objectives)
    what = {
        "pareto": f"frontier of {wanted}",
        "all": f"configurations, by {wanted}",
        "feasible": f"feasible, by {wanted}",
    }
    title = f"{len(rows):,} of {found.rows:,}: {what.get(scenario.keep, f'best by {wanted}')}"
    writers = {name: partial(_figure, name) for name in figures}
    limit = {"limit": lambda row: Cell(missed(row["limit"]) if row["limit"] else "")}
    shown = [*columns, *(["limit=Misses"] if len({*every["limit"]}) > 1 else [])]
    made = grid("rows", title, every, ", ".join(shown), most=len(rows), writers=writers | limit)
    print_grid(made, style)


def _figure(name: str, row: Mapping[str, Any]) -> Cell:
    """A figure; a time has half of its central 80 % beside it, a bound its side."""
    value, low, high = row[name], row.get(f"{name}_low"), row.get(f"{name}_high")
    if value is None:
        return Cell("—")
    shown = written(name, value)
    fixed = name == "usd_per_mtok" and "rate_per_s" in row  # the rate alone says what tokens cost
    if is_bound(row) and name in BOUNDED and not fixed:
        return Cell(f"{BOUNDED[name]} {shown}")
    if name not in INTERVALS or low is None or not value:
        return cell(name, value)
    if high is None:  # so late, or never
        return Cell(f"{shown} ({written(name, low)} or more)")
    if high > value * (1.0 + LOPSIDED):
        return Cell(f"{shown} ({between(low, high, 's')})".replace(" – ", "–"))
    return Cell(f"{shown} ±{high / value - 1:.0%}")


def _share(served: float | None, most: float | None) -> float | None:
    return None if served is None or not most else served / most


def _sizes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The number of GPUs, where the layout does not say it."""
    from roofline.cost.layout import parse

    pairs = {(row["layout"], row["gpus"]) for row in rows}
    return ["gpus"] if any(int(parse(layout).devices) != gpus for layout, gpus in pairs) else []


def _asked(scenario: "Scenario") -> list[str]:
    """Figures that objectives and limits are about, without the ends of intervals."""
    columns = [each.column for each in scenario.objectives]
    columns += [each.column for each in scenario.limits]
    return [name.removesuffix("_low").removesuffix("_high") for name in columns]


def _common(name: str, value: Any) -> str:
    words: Mapping[str, Callable[[Any], str]] = {
        "weights": lambda v: f"{v} weights",
        "kv": lambda v: f"{v} KV cache",
        "batch": lambda v: f"batch {v:,}",
        "prompt": lambda v: f"{v:,} tokens of prompt",
        "output": lambda v: f"{v:,} tokens of output",
        "rate_per_s": lambda v: f"{v:g} requests a second",
        "concurrency": lambda v: f"{v:,} clients",
        "policy": lambda v: "policy of the engine" if v == "auto" else f"{v} batching",
        "patch": lambda v: f"patch {v}",
    }
    return words.get(name, str)(value)


def _notes(found: "Sweep") -> list[str]:
    notes = list(found.reasons[:3])
    if len(found.reasons) > 3:
        notes.append(f"{len(found.reasons) - 3:,} reasons more why some cannot be deployed.")
    return [*notes, *found.notes]
