"""What a sweep found, as text: counts, what all have in common, and the best rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from roofline.cli.render import (
    WIDTH,
    Format,
    echo,
    print_json,
    print_notes,
    print_rows,
    print_sentences,
    wrap,
)
from roofline.units import chance, show, show_binary, significant

if TYPE_CHECKING:
    from roofline.api.sweeps import Estimate
    from roofline.study.found import Sweep
    from roofline.study.scenario.scenario import Scenario

NAMES: Final = {
    "model": "model",
    "gpu": "GPU",
    "layout": "layout",
    "weights": "weights",
    "kv": "KV",
    "engine": "engine",
    "technique": "technique",
    "patch": "patch",
    "workload": "workload",
    "policy": "policy",
}
NUMBERS: Final = {
    "batch": "batch",
    "prompt": "prompt",
    "output": "output",
    "rate_per_s": "req/s",
    "concurrency": "clients",
}
USUAL: Final = {
    "batch": ("ttft_idle_s", "tpot_steady_s", "throughput_per_gpu_tok_s", "usd_per_mtok"),
    "static": ("ttft_s", "tpot_s", "throughput_per_gpu_tok_s", "usd_per_mtok"),
    "traffic": ("load", "ttft_s", "tpot_s", "output_per_gpu_tok_s", "usd_per_mtok"),
}
"""Figures that are printed whatever is asked for."""
GAP: Final = 3
"""Characters between columns."""
FIGURES: Final = {
    "gpus": "GPUs",
    "ttft_idle_s": "TTFT idle",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "tpot_steady_s": "TPOT steady",
    "latency_s": "latency",
    "throughput_tok_s": "tok/s",
    "throughput_per_gpu_tok_s": "tok/s/GPU",
    "user_tok_s": "tok/s/user",
    "usd_per_mtok": "$/Mtok",
    "joule_per_mtok": "energy",
    "memory_bytes": "memory",
    "free_bytes": "free",
    "utilisation": "at work",
    "served_chance": "sure",
    "load": "load",
    "queue_s": "queue",
    "ttft_p99_s": "TTFT p99",
    "tpot_p99_s": "TPOT p99",
    "requests_per_s": "served/s",
    "saturation_per_s": "at most/s",
    "output_tok_s": "tok/s",
    "output_per_gpu_tok_s": "tok/s/GPU",
}
LOPSIDED: Final = 0.5
"""Upper half of an interval from which on both of its ends are told: it is far from even."""
INTERVALS: Final = ("ttft_idle_s", "ttft_s", "tpot_s", "tpot_steady_s", "latency_s")
"""Times that are printed with their intervals."""
BOUNDED: Final = {
    **dict.fromkeys((*INTERVALS, "queue_s", "ttft_p99_s", "tpot_p99_s"), "≥"),
    **dict.fromkeys(("usd_per_mtok", "joule_per_mtok"), "≥"),
    **dict.fromkeys(("throughput_tok_s", "throughput_per_gpu_tok_s", "user_tok_s"), "≤"),
    "saturation_per_s": "≤",
    "load": "≥",
}
"""Figures that published rates bound, and the side on which the hardware is."""


def print_sweep(found: "Sweep", style: Format, top: int) -> None:
    """Print a sweep; CSV and JSON have every column of every row that was kept."""
    if style is Format.JSON:
        print_json("sweep", to_json(found), _notes(found))
        return
    from roofline.study.rows import columns

    rows = found.ranked(0 if style is Format.CSV else top)
    if style is Format.CSV:
        cells = [["" if value is None else str(value) for value in row.values()] for row in rows]
        print_rows(cells, list(columns(found.scenario)), style)
        return
    if style is Format.TABLE:
        echo(wrap(found.scenario.title))
        echo("")
        print_sentences(found.counted)
    _print_rows(found, rows, style)
    print_notes(_notes(found), style)


def print_estimate(estimate: "Estimate", style: Format) -> None:
    """Print how large a sweep is."""
    from roofline.cli.sweep import spell

    plain = {
        "configurations": estimate.configurations,
        "lanes": estimate.lanes,
        "points": estimate.points,
        "chunks": estimate.chunks,
        "seconds": estimate.seconds,
        "bytes": estimate.bytes,
    }
    if style is Format.JSON:
        print_json("sweep", {"scenario": estimate.scenario.name, "dry_run": True, **plain})
        return
    said = {
        "configurations": f"{estimate.configurations:,}",
        "lanes": f"{estimate.lanes:,} combinations of names",
        "points": f"{estimate.points:,} combinations of numbers in each",
        "chunks": f"{estimate.chunks:,}",
        "seconds": spell(estimate.seconds),
        "bytes": show(estimate.bytes, "B"),
    }
    for name in ("bytes", *(("seconds",) if estimate.seconds >= 1.0 else ())):
        said[name] = f"about {said[name]}"
    words = {"seconds": "time", "bytes": "result"}
    if style is Format.CSV:
        print_rows([[name, str(value)] for name, value in plain.items()], ["what", "value"], style)
        return
    if style is Format.TABLE:
        echo(wrap(estimate.scenario.title))
        echo("")
        for name, text in said.items():
            echo(f"{words.get(name, name):<14}   {text}")
        return
    rows = [[words.get(name, name), text] for name, text in said.items()]
    print_rows(rows, ["what", "value"], style)


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


def _print_rows(found: "Sweep", rows: Sequence[dict[str, Any]], style: Format) -> None:
    scenario = found.scenario
    if not rows:
        return
    there = [name for name in (*NAMES, *NUMBERS) if name in rows[0]]
    names = [name for name in there if _differs(name, rows)]
    common = [name for name in there if name not in names]
    if "saturation_per_s" in rows[0]:
        served = "rate_per_s" if "rate_per_s" in rows[0] else "requests_per_s"
        rows = [{**row, "load": _share(row[served], row["saturation_per_s"])} for row in rows]
    needed = [*_asked(scenario), *_sizes(rows)]
    if style is Format.TABLE:
        echo(wrap(f"All of these: {', '.join(_common(name, rows[0][name]) for name in common)}."))
        echo("")
    usual = USUAL["static" if scenario.static else scenario.kind]
    figures = list(dict.fromkeys([*_sizes(rows), *usual, *_asked(scenario)]))
    shown = [*names, *(name for name in figures if name not in names)]
    if _differs("limit", rows):
        shown.append("limit")
    cells = [[_known(name, row) for name in shown] for row in rows]
    wanted = " and ".join(str(each) for each in scenario.objectives)
    what = {
        "pareto": f"frontier of {wanted}",
        "all": f"configurations, by {wanted}",
        "feasible": f"feasible, by {wanted}",
    }
    title = f"{len(rows):,} of {found.rows:,}: {what.get(scenario.keep, f'best by {wanted}')}"
    if style is Format.TABLE:
        echo(wrap(title))
        title = ""
        shown, cells = _narrowed(shown, cells, needed)
    whole = len(names) if _width(shown, cells) <= WIDTH else 1
    print_rows(cells, [_label(name) for name in shown], style, title, whole=whole)


def _differs(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows differ in a column, those that have nothing there left out."""
    return len({row[name] for row in rows} - {None}) > 1


def _share(served: float | None, most: float | None) -> float | None:
    return None if served is None or not most else served / most


def _sizes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The number of GPUs, where the layout does not say it."""
    from roofline.cost.layout import parse

    pairs = {(row["layout"], row["gpus"]) for row in rows}
    return ["gpus"] if any(int(parse(layout).devices) != gpus for layout, gpus in pairs) else []


def _is_bound(row: Any) -> bool:
    """Whether nothing of a row was measured: one with measured parts has an interval."""
    from roofline.study.grounds import DATASHEET, ENDED

    low = row.get(f"{ENDED}_low")
    return bool(row["basis"] == DATASHEET and low is None)


def _known(name: str, row: Any) -> str:
    """A cell; a time has half of its central 80 % beside it, a bound its side, where it has one."""
    text, high = _cell(name, row[name]), row.get(f"{name}_high")
    fixed = name == "usd_per_mtok" and "rate_per_s" in row  # the rate alone says what tokens cost
    if _is_bound(row) and name in BOUNDED and row[name] is not None and not fixed:
        return f"{BOUNDED[name]} {text}"
    low = row.get(f"{name}_low")
    if name not in INTERVALS or low is None or not row[name]:
        return text
    if high is None:  # so late, or never
        return f"{text} ({_cell(name, low)} or more)"
    if high > row[name] * (1.0 + LOPSIDED):
        return f"{text} ({_between(_cell(name, row[f'{name}_low']), _cell(name, high))})"
    return f"{text} ±{high / row[name] - 1:.0%}"


def _between(low: str, high: str) -> str:
    """Both ends of an interval, with their unit once where it is the same.

    >>> _between("44.5 ms", "106 ms"), _between("0.90 s", "1.70 min")
    ('44.5–106 ms', '0.90 s–1.70 min')
    """
    value, _, unit = low.partition(" ")
    return f"{value}–{high}" if unit == high.partition(" ")[2] else f"{low}–{high}"


def _narrowed(
    shown: list[str], cells: list[list[str]], asked: list[str]
) -> tuple[list[str], list[list[str]]]:
    """Without figures that nobody asked for, the last first, as far as the page is too narrow."""
    spare = [name for name in shown if name in FIGURES and name not in asked]
    while spare and _width(shown, cells) > WIDTH:
        gone = shown.index(spare.pop())
        shown = shown[:gone] + shown[gone + 1 :]
        cells = [row[:gone] + row[gone + 1 :] for row in cells]
    return shown, cells


def _width(shown: list[str], cells: list[list[str]]) -> int:
    """Characters of the widest row."""
    columns = zip([_label(name) for name in shown], *cells, strict=True)
    return sum(max(map(len, column)) + GAP for column in columns) - GAP


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


def _label(name: str) -> str:
    return {**NAMES, **NUMBERS, **FIGURES, "limit": "misses"}.get(name, name)


def _cell(name: str, value: Any) -> str:
    from roofline.study.wording import duration, missed

    if value is None:
        return "—"
    if isinstance(value, str):
        return missed(value) if name == "limit" else value
    plain = name.removesuffix("_low").removesuffix("_high")
    if plain.endswith("_bytes"):
        return show_binary(float(value))
    if plain == "joule_per_mtok":
        return show(float(value), "J")
    if plain == "usd_per_mtok":
        return f"{value:,.3f}"
    if plain == "served_chance":
        return chance(float(value))
    if plain in ("utilisation", "load"):
        return f"{value:.0%}"
    if plain.endswith("tok_s"):
        return significant(float(value))
    if plain.endswith("_per_s"):
        return f"{value:.3g}"
    return duration(float(value)) if plain.endswith("_s") else f"{value:,.0f}"


def _notes(found: "Sweep") -> list[str]:
    notes = list(found.reasons[:3])
    if len(found.reasons) > 3:
        notes.append(f"{len(found.reasons) - 3:,} reasons more why some cannot be deployed.")
    return [*notes, *found.notes]
