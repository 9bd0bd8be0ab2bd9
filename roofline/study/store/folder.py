"""A sweep in a folder: its parts and their manifest, begun or gone on with to its result.

One process at a time opens it. The system holds the lock and lets go of it when the process ends,
however it ends: a killed sweep leaves nothing to clean up.
"""

import hashlib
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from msgspec import Struct

from roofline import files
from roofline.content import label, there
from roofline.errors import InputError, MissingEnvironmentError, PartialError
from roofline.records import replace
from roofline.sources import installed
from roofline.study.executors import Executor
from roofline.study.store import manifest
from roofline.study.store.chunk import Chunk, chunks, count
from roofline.study.store.manifest import MANIFEST, ManifestEntry, SweepHeader
from roofline.study.store.parts import (
    EncodingPricing,
    Reduction,
    StoredPart,
    Work,
    described,
    intact,
    merge,
    plain,
    reduced,
    tallied,
    versions,
)
from roofline.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

LOCK: Final = ".lock"
HOLDER: Final = "process "
"""Begins what the file of the lock says."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder; InputError where another process does, OSError where it is not writable."""
    with (folder / LOCK).open("a+b", buffering=0) as file:
        if not files.take(file):
            raise InputError(
                f"another sweep is running in {label(folder)}"
                + (f" ({said})" if (said := _said(file)) else ""),
                hint="wait for it, or choose another folder",
            )
        if not (said := _said(file)) or said.startswith(HOLDER):  # else it is somebody's file
            with suppress(OSError):  # a courtesy: a full disk must not be in the way
                file.truncate(0)
                file.write(f"{HOLDER}{os.getpid()} on {platform.node()}".encode())
        yield


def _said(file: FileIO) -> str:
    file.seek(0)
    return file.read(200).decode(errors="replace")


PARTS: Final = "parts"
NAMED: Final = 3
"""Changed files that an error names."""
RESULT: Final = "result.parquet"


class Store(Struct, frozen=True):
    """A folder that is held; made by `opened`."""

    folder: Path
    header: SweepHeader
    """Place of the folder, and the sweep that it holds."""
    finished: dict[int, ManifestEntry]
    """Parts on the disk by number of their chunk."""
    damaged: int
    """Number of finished parts that are not as they were, and are to be made again."""
    result: ManifestEntry | None
    """The result, where it is there already; its parts are not, then."""
    _journal: BinaryIO

    def keep(self, chunk: Chunk, part: StoredPart) -> ManifestEntry:
        """Put a part on the disk; once this returns it survives a kill and a loss of power.

        PartialError where it cannot be written; what was there before still is.
        """
        with explained(self.folder, self.header, self.finished):
            with files.whole(_part(self.folder, chunk.number)) as file:
                file.write(part.content)
            entry = part.entry(chunk.number)
            manifest.append(self._journal, entry)
        self.finished[chunk.number] = entry
        return entry

    def finish(self, rows: int) -> None:
        """Take the result on the disk for the sweep, and remove the parts that it was made of.

        PartialError where that it is there cannot be written down; the parts still are.
        """
        path = self.folder / RESULT
        with explained(self.folder, self.header, self.finished):
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            entry = ManifestEntry(manifest.WHOLE, rows, path.stat().st_size, sha256)
            manifest.append(self._journal, entry)
        _remove_parts(self.folder, self.finished)

    def tables(self) -> Iterator["pa.Table"]:
        """Tables of the finished parts, one at a time, in the order of their chunks."""
        import pyarrow.parquet as pq

        for number in sorted(self.finished):
            with _part(self.folder, number).open("rb") as file:
                yield pq.ParquetFile(file).read()


@contextmanager
def opened(folder: Path, header: SweepHeader) -> Iterator[Store]:
    """Hold the folder of a sweep: a new one, an empty one, or one to go on with.

    Raises:
        InputError: Another sweep is there, or is running there.
        DocumentError: Its manifest cannot be read.
        MissingEnvironmentError: The folder cannot be written to.
        PartialError: The disk is full; what is there already is kept.
    """
    if there(folder):
        raise InputError(f"{label(folder)} is not a folder", hint="choose another name")
    with ExitStack() as held:
        before: dict[int, ManifestEntry] = {}
        with explained(folder, header, before):
            folder.mkdir(parents=True, exist_ok=True)
            _check_kinds(folder)
            held.enter_context(locked(folder))
            before |= _found(folder, header)
            result = before.pop(manifest.WHOLE, None)
            if result is not None and intact(folder / RESULT, result):
                finished, written = dict(before), [*before.values(), result]
                _remove_parts(folder, finished)
            else:
                result = None
                finished = {n: part for n, part in before.items() if intact(_part(folder, n), part)}
                written = list(finished.values())
                (folder / PARTS).mkdir(exist_ok=True)
            _tidy(folder)
            manifest.write(folder / MANIFEST, header, written)
            journal = held.enter_context((folder / MANIFEST).open("ab", buffering=0))
        yield Store(folder, header, finished, len(before) - len(finished), result, journal)


@contextmanager
def explained(
    folder: Path, header: SweepHeader, finished: Mapping[int, ManifestEntry]
) -> Iterator[None]:
    """Turn what the system says about a disk into an error that says what is kept.

    PartialError where the disk is full or some parts are there already; else, as nothing is there
    and cannot be, MissingEnvironmentError.
    """
    try:
        yield
    except OSError as error:
        message = f"{label(folder)} cannot be written: {error.strerror or error}"
        if error.errno not in files.FULL and not finished:
            raise MissingEnvironmentError(message, hint="choose another folder") from None
        chunks = count(header.configurations, header.chunk_size)
        remedy = "make room there" if error.errno in files.FULL else "make it writable again"
        raise PartialError(
            f"{message}; {len(finished):,} of {chunks:,} chunks are kept",
            hint=f"{remedy}, and run the same command again to go on",
        ) from None


def _check_kinds(folder: Path) -> None:
    """Refuse links, whose files are not the sweep's to change, and what no sweep has made."""
    for name in (LOCK, MANIFEST, PARTS, RESULT):
        place = folder / name
        usual = place.is_dir() if name == PARTS else place.is_file()
        if place.is_symlink() or (place.exists() and not usual):
            said = "is a link" if place.is_symlink() else "is not of a sweep"
            raise InputError(f"{label(place)} {said}", hint="remove it, or choose another folder")


def _found(folder: Path, header: SweepHeader) -> dict[int, ManifestEntry]:
    """Parts that were finished before, of this sweep and no other."""
    place = folder / MANIFEST
    if not place.exists():
        if (folder / RESULT).exists():
            raise InputError(
                f"{label(folder / RESULT)} is there, but no {MANIFEST} that says of which sweep",
                hint="choose another folder, or move that file away",
            )
        return {}
    there, entries = manifest.read(place)
    if differences := _differences(there, header):
        raise InputError(
            f"{label(folder)} holds another sweep: {'; '.join(differences)}",
            hint="choose another folder, or remove this one",
        )
    known = {manifest.WHOLE, *range(count(header.configurations, header.chunk_size))}
    return {number: entry for number, entry in entries.items() if number in known}


def _differences(there: SweepHeader, here: SweepHeader) -> list[str]:
    if changed := sorted(dict(there.inputs.items() ^ here.inputs.items())):
        some = ", ".join(changed[:NAMED])
        rest = f" and {len(changed) - NAMED:,} more" if len(changed) > NAMED else ""
        return [f"it was made from other content of {some}{rest}"]
    if there.scenario != here.scenario:
        if there.keep and here.keep and there.keep != here.keep:
            return [f"it keeps {there.keep}, this one {here.keep}"]
        return [f"its scenario is {there.scenario[:12]}, this one is {here.scenario[:12]}"]
    out = []
    if there.configurations != here.configurations:
        out.append(f"it has {there.configurations:,} configurations, not {here.configurations:,}")
    if there.chunk_size != here.chunk_size:
        out.append(f"its chunks have {there.chunk_size:,} configurations, not {here.chunk_size:,}")
    for name, now in here.versions.items():
        if (was := there.versions.get(name, "none")) != now:
            out.append(f"it was begun with {name} {was}, this is {now}")
    return out


def _tidy(folder: Path) -> None:
    """Remove what a killed sweep was writing."""
    for place in (folder, folder / PARTS):
        for left in place.glob(f".*{files.UNFINISHED}"):
            left.unlink(missing_ok=True)
    files.settle(folder)


def _remove_parts(folder: Path, numbers: Iterable[int]) -> None:
    """Remove parts, as far as they can be: what is left is removed the next time."""
    with suppress(OSError):
        for number in numbers:
            _part(folder, number).unlink(missing_ok=True)
        (folder / PARTS).rmdir()


def _part(folder: Path, number: int) -> Path:
    return folder / PARTS / f"{number:06}.parquet"


class SweepTask(Struct, frozen=True):
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
    units: Mapping[str, str] = {}
    """Base unit by column; columns that are not named have none."""
    metadata: Mapping[str, Any] = {}
    """Plain values more for the metadata of the result."""
    inputs: Mapping[str, str] = {}
    """Digests of the files that the rows depend on, by name. [sha256]"""
    changed: Callable[[], Path | None] = lambda: None
    """Names one of them that is not as it was when its digest was made."""


class Progress(Struct, frozen=True):
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


class FinishedSweep(Struct, frozen=True):
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
    tally: Mapping[str, int] = {}
    """Counts of all chunks together."""


def run(
    folder: Path,
    task: SweepTask,
    executor: Executor,
    progress: Callable[[Progress], None] = lambda _: None,
) -> FinishedSweep:
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
    header = SweepHeader(
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
        return FinishedSweep(
            folder / RESULT, rows, start.chunks, start.done, store.damaged, dict(tally)
        )


def gather(
    task: SweepTask, executor: Executor, progress: Callable[[Progress], None] = lambda _: None
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


def _start(task: SweepTask, finished: Mapping[int, ManifestEntry]) -> Progress:
    return Progress(
        chunk=None,
        done=len(finished),
        chunks=count(task.configurations, task.chunk_size),
        configurations=sum(len(chunk) for chunk in _chunks(task) if chunk.number in finished),
        rows=sum(entry.rows for entry in finished.values()),
    )


def _computed(
    task: SweepTask, store: Store, executor: Executor, start: Progress
) -> Iterator[Progress]:
    """Compute and keep the missing chunks; one step for each that is on the disk."""
    now = start
    missing = (chunk for chunk in _chunks(task) if chunk.number not in store.finished)
    with closing(executor.run(EncodingPricing(task.work), missing)) as parts:
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


def _chunks(task: SweepTask) -> Iterator[Chunk]:
    return chunks(task.configurations, task.chunk_size)


def _about(task: SweepTask, tally: Mapping[str, int]) -> dict[str, Any]:
    return {
        **task.metadata,
        "kind": "sweep",
        "scenario": task.scenario,
        "version": __version__,
        "units": dict(task.units),
        "counts": dict(tally),
    }
