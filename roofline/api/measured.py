"""Runs that other tools measured, beside what is predicted of each."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from roofline.api.measured_rows import METRICS, check, completed, row
from roofline.api.parameters import MeasuredComparison
from roofline.api.question import question, shared
from roofline.api.scores import error_groups
from roofline.bench.end_to_end.comparing import SPREAD_OF, RunComparison, compare
from roofline.bench.end_to_end.rules import reason
from roofline.errors import InputError
from roofline.interop.results import MeasuredRun, RunOptions, read_results
from roofline.interop.results.run import UNITS
from roofline.records import replace
from roofline.table import Result, Table, table

CENTRAL: Final = ("mean", "p50")
"""Statistics of which one is shown of each metric, the first that there is."""
GROUPS: Final = (
    ("ttft",),
    ("tpot", "itl"),
    ("latency",),
    ("output_throughput", "total_throughput", "input_throughput", "request_throughput"),
)
"""Metrics that say the same, of which one is shown."""
TOLD: Final = (
    "model", "gpu", "gpus", "tp", "engine", "weights", "load", "concurrency", "rate", "requests",
    "prompt", "output",
)  # fmt: skip
"""Facts of a scenario that the table of runs shows."""
EXPECTED: Final = 0.8
"""Share of the figures that intervals are made to hold. [1]"""
NAMES: Final = {theirs: ours for ours, theirs in METRICS.items()}


class ComparedRun(Struct, frozen=True):
    """A run, its scenario completed, with its prediction or the reason why there is none."""

    run: MeasuredRun
    """Measured run."""
    found: RunComparison | None
    """Prediction; None where there is none."""
    why: str = ""
    """Then, why not."""


@question(MeasuredComparison)
def compare_measured(asked: MeasuredComparison) -> Result:
    """Compare results of benchmarks with predictions: errors, intervals, reasons.

    Returns:
        Result: Tables ``runs``, ``figures`` (measured, predicted, 80 % interval, reason),
            ``summary``; metadata ``predicted``: how many runs have figures.

    Raises:
        RooflineError: A file cannot be read, or says too little and no option says the rest; an
            option names what nobody knows; degrees do not divide the devices.
    """
    files = asked.files
    listed = [files] if isinstance(files, str | Path) else list(files)
    if not listed:
        raise InputError("no file is named", hint="give the results of a benchmark")
    given = RunOptions(**shared(asked, RunOptions))
    check(given)
    own = Path(asked.profile) if asked.profile else None
    outcomes = predicted(read(listed, asked.format_, given), every=asked.every, profile=own)
    return Result(
        "compare-measured",
        {
            "runs": _runs(outcomes),
            "figures": (figures := _figures(outcomes)),
            "summary": _summary(figures),
            "groups": error_groups(list(_grouped(outcomes, figures))),
        },
        notes=tuple(_notes(outcomes)),
        metadata={"files": [str(file) for file in listed], "predicted": len(set(figures["run"]))},
    )


def read(files: Sequence[str | Path], format_: str, given: RunOptions) -> list[MeasuredRun]:
    """Runs of files, with what options say of them."""
    runs = [run for file in files for run in read_results(Path(file), format_=format_)]
    return [replace(run, scenario=completed(run, given)) for run in runs]


def predicted(
    runs: Sequence[MeasuredRun], *, every: bool, profile: Path | None = None
) -> list[ComparedRun]:
    """Each run with its prediction."""
    import pandas as pd

    able = [place for place, run in enumerate(runs) if not run.scenario.beyond]
    if not able:
        return [ComparedRun(run, None, _beyond(run)) for run in runs]
    frame = pd.DataFrame([row(runs[place]) for place in able])
    wanted = [_wanted(runs[place], every=every) for place in able]
    found, refused = compare(frame, wanted, profile)
    done = {able[each.known.row.place]: each for each in found}
    why = {able[each.place]: each.why for each in refused}
    return [
        ComparedRun(run, done.get(place), why.get(place) or _beyond(run))
        for place, run in enumerate(runs)
    ]


def _beyond(run: MeasuredRun) -> str:
    beyond = run.scenario.beyond
    return f"no prediction knows it: {beyond}" if beyond else ""


def _wanted(run: MeasuredRun, *, every: bool) -> dict[tuple[str, str], float]:
    """Figures to be compared, by the names of the comparison."""
    have = {(each.metric, each.statistic): each.value for each in reversed(run.measurements)}
    if every:
        return {
            (METRICS[metric], statistic): have[metric, statistic]
            for metric in METRICS
            for _, statistic in sorted(key for key in have if key[0] == metric)
            if statistic == "mean" or statistic.startswith("p")
        }
    out = {}
    for group in GROUPS:
        keys = [(metric, statistic) for metric in group for statistic in CENTRAL]
        key = next((key for key in keys if key in have), None)
        if key is not None:
            out[METRICS[key[0]], key[1]] = have[key]
    return out


def _runs(outcomes: Sequence[ComparedRun]) -> Table:
    rows = []
    for number, each in enumerate(outcomes, 1):
        run, known = each.run, each.found.known if each.found else None
        rows.append(
            {
                "run": number,
                "where": run.where,
                "tool": run.tool,
                "version": run.version,
                **{name: getattr(each.run.scenario, name) for name in TOLD},
                "network": known.row.case.network if known else "",
                "device": known.row.case.gpu if known else "",
                "profile": known.engine.profile if known else "",
                "why not": each.why,
            }
        )
    return table(rows, {"rate": "1/s", "prompt": "token", "output": "token"})


_COLUMNS: Final = (
    "run", "metric", "statistic", "unit", "measured", "predicted", "low", "high", "error",
    "inside", "rule", "reason", "field", "definition",
)  # fmt: skip


def _figures(outcomes: Sequence[ComparedRun]) -> Table:
    every = [each.found for each in outcomes if each.found is not None]
    rows = [
        entry
        for number, each in enumerate(outcomes, 1)
        if each.found is not None
        for entry in _entries(number, each.run, each.found, every)
    ]
    return table(rows, dict.fromkeys(_COLUMNS, ""))


def _entries(
    number: int, run: MeasuredRun, found: RunComparison, every: Sequence[RunComparison]
) -> Iterator[dict[str, Any]]:
    for figure in found.figures:
        metric = NAMES[figure.metric]
        said = next(
            each
            for each in run.measurements
            if (each.metric, each.statistic) == (metric, figure.statistic)
        )
        guess = reason(figure, found, every)
        values = (
            number, metric, figure.statistic, UNITS[metric], figure.measured, figure.predicted,
            figure.end(-1.0), figure.end(1.0), figure.error, figure.inside,
            guess.name if guess else "", guess.text if guess else "",
            said.field, said.definition,
        )  # fmt: skip
        yield dict(zip(_COLUMNS, values, strict=True))


def _grouped(outcomes: Sequence[ComparedRun], figures: Table) -> Iterator[dict[str, Any]]:
    """Figures with what they are grouped by."""
    for entry in figures.rows():
        each = outcomes[entry["run"] - 1]
        assert each.found is not None, "a figure of no prediction"
        row = each.found.known.row
        yield {
            **{name: entry[name] for name in ("metric", "error", "inside")},
            "engine": row.engine,
            "gpu": row.case.gpu,
            "network": row.case.network,
            "mode": str(each.run.scenario.load or ""),
        }


def _summary(figures: Table) -> Table:
    """Absolute errors of each metric, and how many are in their interval."""
    every = list(figures.rows())
    together: dict[str, list[Mapping[str, Any]]] = {}
    for entry in every:
        kind = SPREAD_OF[METRICS[entry["metric"]]].removesuffix("_s").removesuffix("_tok")
        together.setdefault(kind, []).append(entry)
    rows = [_summed(name, together[name]) for name in KINDS if name in together]
    if every:
        rows.append(_summed("all", every))
    return table(rows, dict.fromkeys(SUMMED, ""))


KINDS: Final = ("ttft", "tpot", "latency", "throughput")
SUMMED: Final = ("metric", "n", "median", "with interval", "inside")


def _summed(name: str, mine: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    held = [entry["inside"] for entry in mine if entry["inside"] is not None]
    off = float(np.median([abs(entry["error"]) for entry in mine]))
    share = sum(held) / len(held) if held else None
    return dict(zip(SUMMED, (name, len(mine), off, len(held), share), strict=True))


def _notes(outcomes: Sequence[ComparedRun]) -> Iterator[str]:
    seen = set()
    for each in outcomes:
        for note in each.run.notes:
            said = f"{each.run.where}: {note}"
            if said not in seen:
                seen.add(said)
                yield said
    left = sum(not (each.found and each.found.figures) for each in outcomes)
    if left:
        yield f"{left:,} of {len(outcomes):,} runs are not predicted."
    if any(each.run.scenario.load == "open" for each in outcomes):
        yield (
            "No run at a rate was ever fitted to: those have the intervals of closed loops, 1.3 "
            "times as wide."
        )
