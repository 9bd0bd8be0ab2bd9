"""Records that files were read into, kept from one run of the program to the next.

To parse and check the files of a question takes longer than to answer it. A record is kept in the
folder `roofline.content.cache`, and holds as long as its files and this package are as they were.
Where that folder cannot be written, every run reads the files.
"""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import source_hash
from pathlib import Path
from time import time
from typing import Final, TypeVar

from roofline.content import cache as folder
from roofline.errors import InputError

Record = TypeVar("Record")
LASTS_S: Final = 60.0 * 86400.0
"""Age from which a record is deleted when a program first writes another. [s]"""


def kept(
    read: Callable[[], Record], name: str, files: Iterable[Path], content: bytes | None = None
) -> Record:
    """Record that is read from files, or that an earlier run has read from the same ones.

    Args:
        read: Reads the files. What it raises is raised, and not kept.
        name: Says what is read, where the same files are read into several records.
        files: All that the record depends on.
        content: Their `fingerprint` where it is known, as of an archive with many records.
    """
    try:
        paths = list(files)
        place, key = _place(name, paths, fingerprint(paths) if content is None else content)
    except (OSError, InputError):  # a file that is not there, a user without a home
        return read()
    with suppress(Exception):  # whatever is wrong with it, the files are still there
        content = place.read_bytes()
        pickled = content[2 * len(key) :]
        if content[: 2 * len(key)] == key + source_hash(pickled):
            record: Record = pickle.loads(pickled)
            return record
    record = read()
    with suppress(OSError):
        pickled = pickle.dumps(record, pickle.HIGHEST_PROTOCOL)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = place.with_suffix(".part")  # one name: what a kill leaves is written over
        try:
            beside.write_bytes(key + source_hash(pickled) + pickled)
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)
        _forget(place.parent)
    return record


@cache
def _forget(kept_in: Path) -> None:
    """Delete records that were written long ago: one that is still asked for is read again.

    Once in a program: to look at thousands of records takes longer than to read a file.
    """
    last = time() - LASTS_S
    for place in kept_in.glob("*.record"):
        with suppress(OSError):  # another run was first
            if place.stat().st_mtime < last:
                place.unlink()


def _place(name: str, paths: list[Path], content: bytes) -> tuple[Path, bytes]:
    """Where a record of files is, and what it is valid for."""
    place = source_hash("\0".join([name, *map(str, paths)]).encode()).hex()
    return folder() / "kept" / f"{place}.record", source_hash(_package() + content)


def fingerprint(files: Iterable[Path]) -> bytes:
    """Fingerprint of the content of files, by which Python tells changed sources.

    The digests of OpenSSL, which nothing here needs, take longer to load than it takes to make.

    Raises:
        OSError: One of them cannot be read.
    """
    return b"".join(source_hash(path.read_bytes()) for path in files)


@cache
def _package() -> bytes:
    """Fingerprint of the modules of this package, by their sizes and times of change."""
    stamps = sorted(_modules(os.fspath(Path(__file__).parent)))
    return source_hash(repr(stamps).encode())


def _modules(folder: str) -> Iterator[tuple[str, int, int]]:
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            status = entry.stat()
            yield entry.path, status.st_size, status.st_mtime_ns
        elif entry.is_dir() and entry.name not in ("__pycache__", "_content"):
            yield from _modules(entry.path)
