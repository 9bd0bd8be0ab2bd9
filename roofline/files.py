"""Files that are there whole or not at all, whatever happens while they are written."""

import errno
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from roofline.content import label
from roofline.errors import InputError, MissingEnvironmentError, RooflineError

UNFINISHED: Final = ".part"
"""Ends the name of a file that is being written."""
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of the system that mean a disk, a quota or a limit on files is used up."""


@contextmanager
def whole(path: Path, *, lasting: bool = True) -> Iterator[BinaryIO]:
    """Open a file to write: beside its place, then onto the disk, then into its place.

    A reader of ``path`` finds the file that was there before or the new one, never a part, and the
    new one is still there after a loss of power once the block has been left.

    Args:
        path: File to write; one that is there is replaced.
        lasting: Whether to wait for the disk. Without it a loss of power, not the end of a process,
            may take the newest files.

    Raises:
        OSError: It cannot be written; nothing has changed.
    """
    beside = path.with_name(f"{_mark(path)}{os.urandom(4).hex()}{UNFINISHED}")
    try:
        with beside.open("xb") as file:
            with suppress(OSError):  # of a disk without locks
                take(file)
            yield file
            if lasting:
                flush(file)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    if lasting:
        settle(path.parent)


def _mark(path: Path) -> str:
    """Beginning of the names under which a file is written, as long for a name of any length."""
    return f".{zlib.crc32(os.fsencode(path.name)):08x}"


def tidy(path: Path) -> None:
    """Remove what killed programs have left of a file that they were writing."""
    for left in path.parent.glob(f"{_mark(path)}*{UNFINISHED}"):
        with suppress(OSError), left.open("rb") as file:
            if take(file):
                left.unlink()


if sys.platform == "win32":
    import msvcrt

    _FAR: Final = 1 << 30
    """Windows forbids to read what is locked: a byte behind the text is."""

    def take(file: BinaryIO | FileIO) -> bool:
        """Lock a file until it is closed or the program ends; whether nobody else had."""
        file.seek(_FAR)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            file.seek(0)
        return True

else:
    import fcntl

    def take(file: BinaryIO | FileIO) -> bool:
        """Lock a file until it is closed or the program ends; whether nobody else had."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def output(
    path: Path, *, folders: bool = False, lasting: bool = True, links: bool = True
) -> Iterator[BinaryIO]:
    """Open a file that the user has named, to write it whole or not at all.

    A pipe or a device is written to as it is.

    Args:
        path: File to write; one that is there is replaced.
        folders: Whether its folder is made where there is none.
        lasting: Whether to wait for the disk; see `whole`.
        links: Whether a link keeps pointing at its file; else it is replaced: what it points at
            is not what the user has named.

    Raises:
        InputError: The path is a folder or no path, or its folder does not exist.
        MissingEnvironmentError: The file cannot be written: no permission, no space.
    """
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        check(path)
        place = path.resolve() if links else path
        if links and path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
        else:
            if lasting:
                tidy(place)
            with whole(place, lasting=lasting) as file:
                yield file
    except OSError as problem:
        raise _explained(problem, path) from problem


@contextmanager
def text_output(path: Path) -> Iterator[TextIO]:
    """Open a file that the user has named, to write UTF-8; see `output`."""
    with output(path) as file:
        text = TextIOWrapper(file, "utf-8", newline="")
        yield text
        text.flush()
        text.detach()


def check(path: Path) -> None:
    """Refuse a path that no file can have, before there is anything to write.

    Raises:
        InputError: It is a folder or no path, or its folder does not exist.
        MissingEnvironmentError: It cannot be looked at.
    """
    try:
        if path.is_dir():
            raise InputError(f"{label(path)} is a folder", hint="give the name of a file")
        path.lstat()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise InputError(
                f"there is no folder {label(path.parent)} to write {label(Path(path.name))} into",
                hint="create the folder first, or give another path",
            ) from None
    except ValueError:
        raise InputError(f"{label(path)} is not a path", hint="give a file name") from None
    except OSError as problem:
        raise _explained(problem, path) from problem


def _explained(problem: OSError, path: Path) -> RooflineError:
    if problem.errno == errno.ENAMETOOLONG:
        return InputError(f"the name {label(path)} is too long", hint="give a shorter file name")
    if problem.errno in FULL:
        hint = "free some space on that disk, or give a path on another one"
    else:
        hint = "give a path in a folder you can write to"
    reason = problem.strerror or str(problem)
    return MissingEnvironmentError(f"{label(path)} cannot be written: {reason}", hint=hint)


def flush(file: BinaryIO) -> None:
    """Have what was written on the disk."""
    file.flush()
    os.fsync(file.fileno())


def settle(folder: Path) -> None:
    """Have the names in a folder on the disk; not every system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
