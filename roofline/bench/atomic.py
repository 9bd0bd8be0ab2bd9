"""Files that are there whole or not at all, whatever happens while they are written."""

import os
from pathlib import Path

from roofline.content import label
from roofline.errors import MissingEnvironmentError

UNFINISHED = ".part"
"""Ends the name of a file that is being written."""


def write(path: Path, content: bytes) -> None:
    """Write a file: beside its place, onto the disk, then into its place.

    Raises
    ------
    MissingEnvironmentError
        The folder cannot be written to.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _settle(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise MissingEnvironmentError(
            f"{label(path)} cannot be written: {error.strerror}",
            hint="free some space, or choose another folder with ROOFLINE_HOME",
        ) from None


def _settle(folder: Path) -> None:
    """Have the folder itself on the disk; not every system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
