"""The folder of a sweep: its parts and their manifest, opened by one process at a time.

The system holds the lock and lets go of it when the process ends, however it ends: a killed sweep
leaves nothing to clean up.
"""

import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from roofline import files
from roofline.content import label, there
from roofline.errors import InputError, MissingEnvironmentError, PartialError
from roofline.study.store import manifest
from roofline.study.store.chunk import Chunk, count
from roofline.study.store.manifest import MANIFEST, Entry, Header
from roofline.study.store.parts import Part, intact

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


@dataclass(frozen=True, slots=True)
class Store:
    """A folder that is held; made by `opened`."""

    folder: Path
    header: Header
    """Place of the folder, and the sweep that it holds."""
    finished: dict[int, Entry]
    """Parts on the disk by number of their chunk."""
    damaged: int
    """Number of finished parts that are not as they were, and are to be made again."""
    result: Entry | None
    """The result, where it is there already; its parts are not, then."""
    _journal: BinaryIO

    def keep(self, chunk: Chunk, part: Part) -> Entry:
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
            entry = Entry(manifest.WHOLE, rows, path.stat().st_size, sha256)
            manifest.append(self._journal, entry)
        _remove_parts(self.folder, self.finished)

    def tables(self) -> Iterator["pa.Table"]:
        """Tables of the finished parts, one at a time, in the order of their chunks."""
        import pyarrow.parquet as pq

        for number in sorted(self.finished):
            with _part(self.folder, number).open("rb") as file:
                yield pq.ParquetFile(file).read()


@contextmanager
def opened(folder: Path, header: Header) -> Iterator[Store]:
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
        before: dict[int, Entry] = {}
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
def explained(folder: Path, header: Header, finished: Mapping[int, Entry]) -> Iterator[None]:
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


def _found(folder: Path, header: Header) -> dict[int, Entry]:
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


def _differences(there: Header, here: Header) -> list[str]:
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
