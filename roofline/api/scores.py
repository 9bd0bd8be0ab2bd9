"""Predictions beside measurements: rows of a file of serving, and well-known published results."""

import datetime
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofline.api.disaggregation import PublishedPrediction, PublishedScore, score_pool
from roofline.bench.end_to_end.cases import METRICS
from roofline.bench.end_to_end.comparing import ComparedFigure, RunComparison
from roofline.bench.end_to_end.predicting import OK
from roofline.bench.end_to_end.published_results import (
    UNITS,
    PublishedResult,
    published_results,
    row_of,
)
from roofline.bench.end_to_end.rules import RULES, Reason
from roofline.bench.end_to_end.scoring import ScoredRows, refusals, score
from roofline.errors import InputError
from roofline.hardware.serving_engine import UNKNOWN
from roofline.table import Result, Table, table
from roofline.units import counted
from roofline.version import __version__

if TYPE_CHECKING:
    import pandas

EVERY: Final = "all"
"""Quality that takes every row."""
RATE: Final = "throughput_tok_s"
SCORE_COLUMNS: Final = (
    "row", "engine", "version", "gpu", "gpus", "network", "mode", "load", "prompt", "output",
    "metric", "unit", "measured", "predicted", "low", "high", "error", "inside", "profile",
    "rule", "reason",
)  # fmt: skip
PUBLISHED_COLUMNS: Final = (
    "name", "title", "model", "gpu", "gpus", "engine", "load", "metric", "unit", "per",
    "measured", "predicted", "low", "high", "error", "inside", "fitted", "basis", "rule",
    "reason", "why not", "source", "url", "date", "where", "note",
)  # fmt: skip
SAID: Final[Mapping[str, str]] = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "latency_s": "latency",
    RATE: "throughput",
}


def scoreboard(
    file: str | Path | None = None,
    *,
    where: str = "",
    quality: str = OK,
    cross_validate: bool = False,
    date: str = "",
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Score predictions against measured rows and against published results.

    Args:
        file: Measured rows of serving, in the columns that ``roofline validate --kind e2e`` reads;
            None for the published results alone.
        where: Conditions on its rows: ``"gpu=h100_sxm,mode=steady_concurrency"``.
        quality: Rows that have this ``quality`` are taken, where the file says it; ``"all"`` for
            every row.
        cross_validate: Whether each row is predicted by constants of other groups of device, engine
            and network; else by the shipped constants.
        date: Day that the scoreboard is of, ``"2026-11-23"``; empty for today.
        progress: Called with the number of rows before they are predicted.

    Returns:
        Result: Tables ``published_results``, ``groups``, ``reasons``, ``scores`` and ``refused``;
            sentences under ``summary`` in the metadata.

    Raises:
        RooflineError: The file cannot be read, has no such rows or columns, or the date is none.
    """
    day = _day(date)
    metadata: dict[str, Any] = {"date": day, "version": __version__}
    scores: list[dict[str, Any]] = []
    refused: list[tuple[str, int]] = []
    total = predicted = 0
    if file is not None:
        frame = _frame(Path(file), metadata, where=where, quality=quality)
        total = len(frame)
        if progress is not None:
            progress(total)
        found = score(frame, cross_validate=cross_validate)
        predicted = len(found.runs)
        scores = list(_scores(found, frame))
        refused = refusals(found.refused)
        metadata |= {
            "rows": total,
            "predicted": predicted,
            "constants": "of other groups" if cross_validate else "as shipped",
        }
    published = list(_published())
    groups = error_groups(scores)
    summary = [*_file_sentences(groups, total, predicted), *_published_sentences(published)]
    tables = {
        "groups": groups,
        "reasons": _reasons(scores),
        "published_results": table(published, dict.fromkeys(PUBLISHED_COLUMNS, "")),
        "scores": table(scores, dict.fromkeys(SCORE_COLUMNS, "")),
        "refused": table([{"rows": n, "why": why} for why, n in refused], {"rows": "", "why": ""}),
    }
    notes = tuple(_notes(file is not None, cross_validate=cross_validate))
    return Result("scoreboard", tables, notes=notes, metadata=metadata | {"summary": summary})


def _day(text: str) -> str:
    """Day as it is written, today's where none is."""
    if not text:
        return datetime.date.today().isoformat()
    with suppress(ValueError):
        if datetime.date.fromisoformat(text).isoformat() == text:
            return text
    raise InputError(f"{text!r:.40} is no date", hint="write it like 2026-11-23")


def _frame(path: Path, metadata: dict[str, Any], *, where: str, quality: str) -> "pandas.DataFrame":
    """Rows asked for; what they are goes into the metadata."""
    from roofline.bench.measurement_files import chosen, read_measurements

    wanted = chosen(read_measurements(path), where)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    metadata |= {"file": path.name, "digest": f"sha256:{digest}"}
    if quality != EVERY and "quality" in wanted:
        wanted = wanted[wanted["quality"].astype(str) == quality]
    if where or quality != OK:
        metadata |= {"where": where, "quality": quality}
    if wanted.empty:
        raise InputError(f"no row is left of {path.name}", hint="loosen `where` or `quality`")
    return wanted.reset_index(drop=True)


def _scores(found: ScoredRows, frame: "pandas.DataFrame") -> Iterator[dict[str, Any]]:
    names = list(frame["source_id"].astype(str)) if "source_id" in frame else []
    for run, figure, guess in found.reasons():
        row = run.known.row
        # Clients or sequences of all replicas; requests a second where they come at a rate.
        load = (row.rate or row.batch or row.requests) * row.replicas
        values = (
            names[row.place] if names else f"row {row.place + 1}",
            row.engine, row.version, row.case.gpu, int(row.devices), row.case.network, row.mode,
            load, row.isl, row.osl, _metric(figure), UNITS[_metric(figure)],
            *_quantities(figure), run.known.engine.profile, *_guess(guess),
        )  # fmt: skip
        yield dict(zip(SCORE_COLUMNS, values, strict=True))


def _metric(figure: ComparedFigure) -> str:
    return figure.metric if figure.metric in METRICS else RATE


def _quantities(figure: ComparedFigure, share: float = 1.0) -> tuple[Any, ...]:
    """Measured, predicted, both ends, error, and whether the measured figure is inside."""
    low, high = figure.end(-1.0), figure.end(1.0)
    assert low is not None, figure.metric
    assert high is not None, figure.metric
    scaled = (value * share for value in (figure.measured, figure.predicted, low, high))
    return (*scaled, figure.error, figure.inside)


def _guess(guess: Reason | None) -> tuple[str, str]:
    return (guess.name, guess.text) if guess else ("", "")


def _reasons(scores: Sequence[Mapping[str, Any]]) -> Table:
    """Likeliest reasons of figures outside their interval, the most frequent first."""
    counts: dict[str, int] = {}
    for entry in scores:
        if entry["rule"]:
            counts[entry["rule"]] = counts.get(entry["rule"], 0) + 1
    outside = sum(counts.values())
    rows = [
        {
            "rule": rule,
            "figures": number,
            "share": number / outside,
            "meaning": str(RULES[rule].__doc__).partition("\n")[0],
        }
        for rule, number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    return table(rows, dict.fromkeys(("rule", "figures", "share", "meaning"), ""))


def _published() -> Iterator[dict[str, Any]]:
    """Figures of all published results, those that are not predicted with the reason."""
    import pandas as pd

    results = published_results()
    servers = [each for each in results if not each.pool and not each.unpredicted]
    found = score(pd.DataFrame([row_of(each) for each in servers]))
    why = {servers[each.place].name: each.why for each in found.refused}
    figures: dict[str, list[tuple[RunComparison, ComparedFigure, Reason | None]]] = {}
    for run, figure, guess in found.reasons():
        figures.setdefault(servers[run.known.row.place].name, []).append((run, figure, guess))
    for result in results:
        if result.unpredicted:
            yield from _unpredicted(result, result.unpredicted)
        elif result.pool:
            yield _entry(result, RATE, score_pool(result))
        elif result.name in figures:
            yield from (_server(result, *entry) for entry in figures[result.name])
        else:
            yield from _unpredicted(result, why[result.name])


def _server(
    result: PublishedResult, run: RunComparison, figure: ComparedFigure, guess: Reason | None
) -> dict[str, Any]:
    metric = _metric(figure)
    share = result.per / result.ran["gpus"] if metric == RATE else 1.0
    _, value, low, high, *_ = _quantities(figure, share)
    profile = run.known.engine.profile
    basis = "assumed" if profile == UNKNOWN else f"fit {profile}"
    rule, reason = _guess(guess)
    if result.cause and rule:
        rule, reason = "published", result.cause
    predicted = PublishedPrediction(value, low, high, basis)
    return _entry(result, metric, PublishedScore(predicted, rule=rule, reason=reason))


def _unpredicted(result: PublishedResult, why: str) -> Iterator[dict[str, Any]]:
    yield from (_entry(result, metric, PublishedScore(None, why)) for metric in result.measured)


def _entry(result: PublishedResult, metric: str, score: PublishedScore) -> dict[str, Any]:
    measured, found = result.measured[metric], score.predicted
    figures: tuple[Any, ...] = (measured, None, None, None, None, None)
    if found is not None:
        error, inside = found.value / measured - 1.0, found.low <= measured <= found.high
        figures = (measured, found.value, found.low, found.high, error, inside)
    ran, source = result.ran, result.source
    values = (
        result.name, result.title, ran["model"], ran["gpu"], ran["gpus"], ran["engine"],
        result.load["mode"], metric, UNITS[metric], result.per if metric == RATE else 0,
        *figures, result.fitted, found.basis if found else "", score.rule, score.reason, score.why,
        source.title, source.url, source.date, source.where, result.note,
    )  # fmt: skip
    return dict(zip(PUBLISHED_COLUMNS, values, strict=True))


def _file_sentences(groups: Table, total: int, predicted: int) -> Iterator[str]:
    whole = [entry for entry in groups.rows() if entry["by"] == "all"]
    if not whole:
        if total:
            yield f"None of {counted(total, 'measured row')} is predicted."
        return
    parts = [f"{SAID[each['metric']]} {_percent(each['median_error'])}" for each in whole]
    held = sum(each["inside"] * each["figures"] for each in whole)
    figures = sum(each["figures"] for each in whole)
    yield (
        f"{predicted:,} of {counted(total, 'measured row')} are predicted. The median error is "
        f"{_listed(parts)}; {_percent(held / figures)} of {figures:,} figures are in their 80 % "
        "interval."
    )


def _published_sentences(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    results = {entry["name"] for entry in entries}
    done = [entry for entry in entries if entry["predicted"] is not None]
    if not done:
        return
    off = [abs(entry["error"]) for entry in done]
    held = sum(bool(entry["inside"]) for entry in done)
    named = {entry["name"] for entry in done}
    yield (
        f"Of {counted(len(results), 'published result')}, {len(named)} are predicted: half of "
        f"their {len(done)} figures within {_percent(float(np.median(off)))}, and {held} in their "
        "80 % interval."
    )
    fresh = [entry for entry in done if not entry["fitted"]]
    if len(fresh) < len(done):
        inside = sum(bool(entry["inside"]) for entry in fresh)
        yield (
            f"No constant was fitted to {len(fresh)} of these figures: {inside} of them are in "
            "their interval."
        )
    worst = max(done, key=lambda entry: abs(np.log(entry["predicted"] / entry["measured"])))
    side = "low" if worst["error"] < 0 else "high"
    yield f"Furthest off: {worst['title']}, {_percent(abs(worst['error']))} too {side}."


def _notes(with_rows: bool, *, cross_validate: bool) -> Iterator[str]:
    if with_rows and not cross_validate:
        yield (
            "Shipped constants were fitted to measured rows, these perhaps among them; "
            "`cross_validate` predicts each row by constants of other groups."
        )
    yield (
        "Published results are taken as their sources state them, with what a source leaves out "
        "assumed and noted; pools of prefill and decode are priced step by step, each without "
        "waiting for the other."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.{0 if share >= 0.0995 or not share else 1}f} %"


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]


SPLITS: Final = (("engine", "gpu"), ("engine",), ("gpu",), ("network",), ("mode",))
"""Columns that figures are grouped by, one table for each."""
GROUP_COLUMNS: Final = (
    "by", "engine", "gpu", "network", "mode", "metric", "figures", "median_error", "mean_error",
    "p90_error", "inside",
)  # fmt: skip
FIRST: Final = ("ttft_s", "tpot_s", "latency_s", "throughput_tok_s")
"""Metrics in the order of the table; others follow as they come."""


def error_groups(figures: Sequence[Mapping[str, Any]]) -> Table:
    """Errors and shares inside, by each of `SPLITS` and of all figures.

    A column that has one value says nothing that all figures do not.
    """
    rows: list[dict[str, Any]] = []
    for split in SPLITS if figures else ():
        keys = sorted({tuple(entry[name] for name in split) for entry in figures})
        for key in keys if len(keys) > 1 or len(split) > 1 else ():
            chosen = dict(zip(split, key, strict=True))
            mine = [e for e in figures if all(e[name] == value for name, value in chosen.items())]
            rows += _errors(" and ".join(split), chosen, mine)
    rows += _errors("all", {}, figures)
    return table(rows, dict.fromkeys(GROUP_COLUMNS, ""))


def _errors(
    by: str, key: Mapping[str, str], mine: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    there = dict.fromkeys(entry["metric"] for entry in mine)
    for metric in dict.fromkeys((*(name for name in FIRST if name in there), *there)):
        entries = [entry for entry in mine if entry["metric"] == metric]
        off = np.abs([entry["error"] for entry in entries])
        median, p90 = (float(each) for each in np.quantile(off, (0.5, 0.9)))
        held = [entry["inside"] for entry in entries if entry["inside"] is not None]
        inside = float(np.mean(held)) if held else None
        named = [key.get(name, "") for name in ("engine", "gpu", "network", "mode")]
        values = (by, *named, metric, len(off), median, float(off.mean()), p90, inside)
        yield dict(zip(GROUP_COLUMNS, values, strict=True))
