"""Run a sweep into a folder, or go on with one, to its result."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.content import label
from roofline.errors import PartialError
from roofline.sources import installed
from roofline.study.executors import Executor
from roofline.study.store.chunk import Chunk, chunks, count
from roofline.study.store.folder import RESULT, Store, explained, opened
from roofline.study.store.manifest import Entry, Header
from roofline.study.store.parts import (
    Encoded,
    Reduction,
    Work,
    described,
    merge,
    plain,
    reduced,
    tallied,
    versions,
)
from roofline.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Task:
    """Work of a sweep."""

    scenario: str
    """Digest of the scenario as it was resolved: all that the rows depend on."""
    configurations: int
    chunk_size: int
    """Number in all, and number in a chunk."""
    work: Work
    """Prices a chunk; can be pickled."""
    reduction: Reduction | None = None
    """Reduction of the rows of all parts; None keeps all that the parts have."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Base unit by column; columns that are not named have none."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values more for the metadata of the result."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Digests of the files that the rows depend on, by name. [sha256]"""
    changed: Callable[[], Path | None] = lambda: None
    """Names one of them that is not as it was when its digest was made."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a sweep: what counts here is on the disk for good."""

    chunk: Chunk | None
    """The one just finished; none at the start."""
    done: int
    chunks: int
    """Finished chunks, those of runs before included, and all of them."""
    configurations: int
    """Configurations of the finished chunks."""
    rows: int
    """Kept in them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished sweep."""

    result: Path
    """The Parquet file."""
    rows: int
    """Rows of the result."""
    chunks: int
    """Chunks of the sweep."""
    resumed: int
    """Chunks that were there from a run before."""
    damaged: int
    """Chunks that had been finished before and were made again, as their parts were not intact."""
    tally: Mapping[str, int] = field(default_factory=dict)
    """Counts of all chunks together."""


def run(
    folder: Path,
    task: Task,
    executor: Executor,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Outcome:
    """Compute what is missing of a sweep, and write its result.

    Args:
        folder: Of this sweep alone; what an interrupted run left there is gone on from.
        task, executor: What to compute, and what computes it.
        progress: Called once before the first chunk, then after each, when it is on the disk.

    Raises:
        InputError: The folder holds another sweep, or one that is running.
        PartialError: The disk is full, or workers die again and again; what was finished is kept.
        MissingEnvironmentError: The folder cannot be written to, or the executor is not installed.
        RooflineError: From the work, with the chunk it is about.
    """
    header = Header(
        task.scenario,
        task.configurations,
        task.chunk_size,
        versions(),
        str(task.metadata.get("keep", "")),
        {**installed(), **task.inputs},
    )
    assert task.configurations > 0, "a sweep of nothing"
    with opened(folder, header) as store:
        start = _start(task, store.finished)
        progress(start)
        for now in _computed(task, store, executor, start):
            progress(now)
        tally: Counter[str] = Counter()
        for _, entry in sorted(store.finished.items()):
            tally.update(entry.tally)
        if store.result is not None:
            rows = store.result.rows
        else:
            with explained(folder, header, store.finished):
                rows = merge(store.tables(), folder / RESULT, _about(task, tally), task.reduction)
            store.finish(rows)
        return Outcome(folder / RESULT, rows, start.chunks, start.done, store.damaged, dict(tally))


def gather(
    task: Task, executor: Executor, progress: Callable[[Progress], None] = lambda _: None
) -> tuple["pa.Table", dict[str, int]]:
    """Rows that `run` writes, and what the chunks counted, with nothing on the disk.

    PartialError where workers die again and again; errors of the work come with their chunk.
    """
    import pyarrow as pa

    now, tables = _start(task, {}), {}
    progress(now)
    with closing(executor.run(task.work, _chunks(task))) as parts:
        for chunk, table in parts:
            if (path := task.changed()) is not None:
                raise PartialError(
                    f"{label(path)} was changed while the sweep was running", hint="run it again"
                )
            tables[chunk.number] = table
            now = _after(now, chunk, len(table))
            progress(now)
    ordered = [tables[number] for number in sorted(tables)]
    tally = sum((Counter(tallied(table)) for table in ordered), Counter[str]())
    rows = reduced(ordered, task.reduction) if task.reduction else pa.concat_tables(ordered)
    return plain(rows).replace_schema_metadata(described(_about(task, tally))), dict(tally)


def _start(task: Task, finished: Mapping[int, Entry]) -> Progress:
    return Progress(
        chunk=None,
        done=len(finished),
        chunks=count(task.configurations, task.chunk_size),
        configurations=sum(len(chunk) for chunk in _chunks(task) if chunk.number in finished),
        rows=sum(entry.rows for entry in finished.values()),
    )


def _computed(task: Task, store: Store, executor: Executor, start: Progress) -> Iterator[Progress]:
    """Compute and keep the missing chunks; one step for each that is on the disk."""
    now = start
    missing = (chunk for chunk in _chunks(task) if chunk.number not in store.finished)
    with closing(executor.run(Encoded(task.work), missing)) as parts:
        for chunk, part in parts:
            if (path := task.changed()) is not None:
                raise PartialError(
                    f"{label(path)} was changed while the sweep was running; "
                    f"{now.done:,} of {now.chunks:,} chunks are kept",
                    hint="put it back and run the same command again, or choose another folder",
                )
            store.keep(chunk, part)
            now = _after(now, chunk, part.rows)
            yield now
    assert now.done == now.chunks, "an executor lost a chunk"


def _after(now: Progress, chunk: Chunk, rows: int) -> Progress:
    """Progress when one more chunk is done."""
    return replace(
        now,
        chunk=chunk,
        done=now.done + 1,
        configurations=now.configurations + len(chunk),
        rows=now.rows + rows,
    )


def _chunks(task: Task) -> Iterator[Chunk]:
    return chunks(task.configurations, task.chunk_size)


def _about(task: Task, tally: Mapping[str, int]) -> dict[str, Any]:
    return {
        **task.metadata,
        "kind": "sweep",
        "scenario": task.scenario,
        "version": __version__,
        "units": dict(task.units),
        "counts": dict(tally),
    }
