"""A plain table of your own: one run a row, columns by name, units in the names.

What was run: ``model, gpu, gpus, tp, pp, ep, dp, engine, engine_version, weights, kv, load,
concurrency, rate, requests, prompt, output`` as in `roofline.interop.results.run.RunScenario`;
empty cells say nothing. What was measured: ``ttft_s, tpot_s, itl_s, latency_s`` in seconds (or
``_ms``), ``output_tok_s, input_tok_s, total_tok_s`` tokens a second and ``requests_s`` requests a
second, of all devices; each a mean, or after a statistic: ``p50_ttft_s``, ``p99_tpot_ms``. At least
one is needed, and a column of another name is refused. ``load`` is closed, open, offline, batch,
prefill or decode; without one it is open with a rate and closed with a concurrency.
"""

from collections.abc import Iterator
from typing import Any, Final, get_args

from roofline.interop.results.content import Content, header, rows
from roofline.interop.results.measuring import statistic
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import (
    Load,
    MeasuredFigure,
    MeasuredRun,
    ResultFormat,
    RunScenario,
)
from roofline.units import PREFIX

TEXTS: Final = ("model", "gpu", "engine", "engine_version", "weights", "kv", "load")
COUNTS: Final = ("gpus", "tp", "pp", "ep", "dp", "concurrency", "requests")
NUMBERS: Final = ("rate", "prompt", "output")
TIMES: Final = ("ttft", "tpot", "itl", "latency")
RATES: Final = {
    "output_tok_s": "output_throughput",
    "input_tok_s": "input_throughput",
    "total_tok_s": "total_throughput",
    "requests_s": "request_throughput",
}


def _column(name: str) -> tuple[str, str, float] | None:
    """Metric, statistic and scale of a column; None where it has no figure."""
    head, _, rest = name.partition("_")
    found = statistic(head)
    bare = rest if found else name
    if bare in RATES:
        return RATES[bare], found or "mean", 1.0
    metric, _, unit = bare.rpartition("_")
    if metric in TIMES and unit in ("s", "ms"):
        return metric, found or "mean", PREFIX["m"] if unit == "ms" else 1.0
    return None


def _recognises(content: Content) -> bool:
    names = header(content)
    # vLLM's sweeps name figures alike, and their rows have columns that nobody writes by hand.
    return "tokenizer_id" not in names and any(_column(name) for name in names)


def _read(content: Content) -> Iterator[MeasuredRun]:
    known = {*TEXTS, *COUNTS, *NUMBERS}
    names = header(content)
    for name in names:
        if name not in known and _column(name) is None:
            raise content.error(
                f"no column is called {name!r:.40}",
                f"there are {', '.join((*TEXTS, *COUNTS, *NUMBERS))}; ttft_s, p99_tpot_ms, "
                "output_tok_s and the like",
                1,
            )
    seen: dict[tuple[str, str], str] = {}  # ttft_s and ttft_ms would be one figure twice
    for name in names:
        if (found := _column(name)) and (before := seen.setdefault(found[:2], name)) != name:
            raise content.error(f"{before} and {name} are the same figure", "keep one of them", 1)
    for row in rows(content):
        yield MeasuredRun("a table", row.where, _scenario(row), tuple(_measured(row, names)))


def _scenario(row: LocatedValue) -> RunScenario:
    said: dict[str, Any] = {name: text(row, name) for name in TEXTS if name != "load"}
    said |= {name: count(row, name) for name in COUNTS}
    said |= {name: number(row, name) for name in NUMBERS}
    return RunScenario(**said, load=_load(row))


def _load(row: LocatedValue) -> Load:
    stated = text(row, "load")
    for known in get_args(Load):
        if stated and stated == known:
            load: Load = known
            return load
    if stated:
        raise row.at("load").error(
            f"{stated!r:.30} is no load",
            f"{', '.join(name for name in get_args(Load) if name)} are",
        )
    return "open" if number(row, "rate") else "closed" if count(row, "concurrency") else ""


def _measured(row: LocatedValue, names: tuple[str, ...]) -> Iterator[MeasuredFigure]:
    for name in names:
        found = _column(name)
        value = number(row, name) if found else None
        if found and value is not None:
            metric, of, scale = found
            yield MeasuredFigure(metric, of, value * scale, name, "as the table says")


FORMAT = ResultFormat("csv", "a table of your own (CSV)", _recognises, _read, "")
