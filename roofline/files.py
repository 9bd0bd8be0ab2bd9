"""Files that are there whole or not at all, whatever happens while they are written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

UNFINISHED: Final = ".part"
"""Ends the name of a file that is being written."""


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write: beside its place, then onto the disk, then into its place.

    A reader of ``path`` finds the file that was there before or the new one, never a part, and the
    new one is still there after a loss of power once the block has been left.

    Raises:
        OSError: It cannot be written; nothing has changed.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with beside.open("wb") as file:
            yield file
            flush(file)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    settle(path.parent)


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
