"""Logs that engines write while they serve: what was run in their steps, and how long it took."""

import gzip
import re
from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path
from typing import Final

from roofline.content import label
from roofline.errors import DocumentError
from roofline.interop.engine_logs.log import EngineLog, LogReader, StepStore, joined
from roofline.interop.engine_logs.prometheus import SglangMetricsReader, VllmMetricsReader
from roofline.interop.engine_logs.sglang import SglangReader
from roofline.interop.engine_logs.trtllm import TrtllmReader, TrtllmStatsReader
from roofline.interop.engine_logs.vllm import VllmReader
from roofline.interop.files import unpacked
from roofline.schema.files import most_unpacked, too_packed
from roofline.serving.logged_step import LoggedStep
from roofline.units import PREFIX

__all__ = ["EngineLog", "LoggedStep", "read_logs"]

READERS: Final[tuple[type[LogReader], ...]] = (
    VllmReader,
    SglangReader,
    TrtllmReader,
    TrtllmStatsReader,
    VllmMetricsReader,
    SglangMetricsReader,
)
LONGEST: Final = int(64 * PREFIX["Ki"])
"""Bytes of a line that are read together: a line of statistics has some hundred. [B]"""
MOST: Final = PREFIX["T"]
"""Figure of a step, in any unit, from which on it has no meaning. [1]"""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WRITES: Final = (
    "it is read where vLLM writes 'Avg generation throughput', SGLang 'Decode batch', TensorRT-LLM "
    "host_step_time (print_iter_log) or iterLatencyMS, or Prometheus vllm: or sglang: metrics"
)


def read_logs(paths: Sequence[Path]) -> EngineLog:
    """Steps that the logs of one deployment tell of, in memory that does not grow with them.

    Args:
        paths: Text with whatever else between the engine's lines; ``.gz`` is unpacked.

    Raises:
        DocumentError: At the file, or its line: it cannot be read, no line tells of a step, it is
            of two engines, or of one that drafts.
    """
    return joined(_read(path) for path in paths)


def _read(path: Path) -> EngineLog:
    source = label(path)
    readers = [make() for make in READERS]
    found: LogReader | None = None
    store, line = StepStore(), 0
    for line, text in _lines(path, source):
        for reader in readers:
            if any(word in text for word in reader.facts):
                reader.learn_fact(text)
        mine = next((each for each in readers if each.claims(text)), None)
        if mine is None:
            continue
        if found is not None and mine is not found:
            if type(mine).engine == type(found).engine:
                continue  # what one engine writes in two ways is told once
            raise DocumentError(
                f"the line is of {mine.title}, those above are of {found.title}",
                hint="give the log of each engine in a file of its own",
                where=f"{source}:{line}",
            )
        found = mine
        for step in found.read(text, line):
            _keep(store, found, step)
        _check(found, f"{source}:{line}")
    if found is None:
        raise DocumentError(
            f"no line of {line:,} is of an engine's statistics", hint=WRITES, where=source
        )
    for step in found.finish():
        _keep(store, found, step)
    _check(found, f"{source}:{line}")
    log = EngineLog(
        source,
        found.title,
        found.engine,
        tuple(store),
        line,
        found.used,
        found.cut,
        found.unsteady,
        found.capacity,
    )
    if not log.steps:
        raise DocumentError(
            f"no line tells of a step: {log.account}",
            hint="log some minutes of steady load; the first line after a start tells nothing",
            where=source,
        )
    return log


def _check(found: LogReader, where: str) -> None:
    """Refuse an engine whose lines do not tell of the steps of all of its sequences."""
    if found.drafts:
        raise DocumentError(
            "the engine drafts (speculative decoding), so that tokens do not tell of steps",
            hint="learn from a log without drafts; roofline speculate adds them",
            where=where,
        )
    if found.staged:
        raise DocumentError(
            "the engine is a pipeline, whose lines tell of one of its batches each",
            hint="learn from runs: roofline calibrate --from",
            where=where,
        )


def _keep(store: StepStore, reader: LogReader, step: LoggedStep) -> None:
    """Keep a step whose figures have a meaning."""
    given = (step.seconds, step.running, step.prompt_tokens, step.chunk)
    known = (each for each in (step.tokens, step.usage) if not isnan(each))
    if all(0 <= each < MOST for each in (*given, *known)) and step.seconds and step.running:
        store.add(step)
    else:
        reader.used -= 1
        reader.unsteady += 1


def _lines(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without colours; bytes that are no text are replaced."""
    hints = {"folder": "name a file in it", "packed": "copy the whole file again"}
    opened = gzip.open if path.suffix == ".gz" else open
    with unpacked(source, **hints), opened(path, "rb") as file:
        most, read, number, begins = most_unpacked(path, source), 0, 0, True
        while data := file.readline(LONGEST):
            read += len(data)
            if read > most:
                raise too_packed(source, number)
            number += begins
            begins = data.endswith(b"\n")
            text = data.decode("utf-8", errors="replace").rstrip("\r\n")
            if "\x1b" in text:
                text = _COLOUR.sub("", text)
            if text:
                yield number, text
