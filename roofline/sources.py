"""Record of the files that an answer was computed from, with digests of their bytes."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from roofline.content import Folder, shipped

Stamp: TypeAlias = tuple[int, int] | None
"""Size of a file [B] and when it last changed [ns]; None where there is no such file."""


class Sources(Struct, frozen=True):
    """Files that were read, and files that were looked for and do not exist."""

    digests: dict[Path, str] = {}
    """Digests of the bytes that were read, by path. [sha256]"""
    stamps: dict[Path, Stamp] = {}
    """Stamps of both kinds of files when they were looked at, by path."""

    def add(self, path: Path, content: bytes | None) -> None:
        """Add a file with the bytes that were read; None where there is no such file."""
        place = path.resolve()
        # A link may point at another file before it is read again.
        self.stamps.update({each: stamp(each) for each in (place, path.absolute())})
        if content is not None:
            import hashlib

            self.digests[place] = hashlib.sha256(content).hexdigest()

    def named(self, root: Path) -> dict[str, str]:
        """Digests by path, relative to ``root`` for files below it. [sha256]"""
        top = root.resolve()
        return {
            (path.relative_to(top) if path.is_relative_to(top) else path).as_posix(): digest
            for path, digest in sorted(self.digests.items())
        }

    def changed(self) -> Path | None:
        """A file that is not as it was when it was read; None where all are."""
        return next((path for path, then in self.stamps.items() if stamp(path) != then), None)


_open: ContextVar[Sources | None] = ContextVar("_open", default=None)


@contextmanager
def recorded() -> Iterator[Sources]:
    """Record the files that are read in the block."""
    found = Sources()
    token = _open.set(found)
    try:
        yield found
    finally:
        _open.reset(token)


def record(path: Path, content: bytes | None) -> None:
    """Add a file to the record of the enclosing `recorded` block, if there is one."""
    if (found := _open.get()) is not None and not _is_installed(path.resolve()):
        found.add(path, content)


def _is_installed(path: Path) -> bool:
    """True for shipped data, of which `installed` has one digest: often cached, not read."""
    return any(path.is_relative_to(shelf) for shelf in _shelves().values())


def stamp(path: Path) -> Stamp:
    """Size of a file [B] and when it last changed [ns]; None where it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


SHELVES: Final[Mapping[Folder, tuple[str, ...]]] = {
    "hwspecs": ("calibrations", "engines", "gpus", "links", "nodes"),
    "scenarios": ("models", "workloads"),
}
"""Folders of shipped data that answers are made from."""


@cache
def installed() -> Mapping[str, str]:
    """Digests of each folder of shipped data, and of the program. [sha256]"""
    code = Path(__file__).parent
    modules = (path for path in code.rglob("*.py") if "_content" not in path.parts)
    data = {
        name: _digest((path for path in shelf.rglob("*") if path.is_file()), shelf)
        for name, shelf in _shelves().items()
    }
    return {**data, "the program": _digest(modules, code)}


@cache
def _shelves() -> Mapping[str, Path]:
    return {
        f"{folder}/{shelf}": (shipped(folder) / shelf).resolve()
        for folder, shelves in SHELVES.items()
        for shelf in shelves
    }


def _digest(files: Iterable[Path], root: Path) -> str:
    """Digest of files by their names from a folder and their bytes. [sha256]"""
    import hashlib

    found = hashlib.sha256()
    for path in sorted(files):
        found.update(path.relative_to(root).as_posix().encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
