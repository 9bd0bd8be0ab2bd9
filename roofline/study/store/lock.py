"""One sweep at a time in a folder.

The system holds the lock and lets go of it when the process ends, however it ends: a killed sweep
leaves nothing to clean up.
"""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from roofline.content import label
from roofline.errors import InputError

LOCK: Final = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder.

    Raises
    ------
    InputError
        Another process holds it.
    OSError
        The folder cannot be written to.
    """
    with (folder / LOCK).open("a+b", buffering=0) as file:
        if not _taken(file):
            raise InputError(
                f"another sweep is running in {label(folder)}{_holder(file)}",
                hint="wait for it, or choose another folder",
            )
        with suppress(OSError):  # who holds it is a courtesy: a full disk must not be in the way
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}".encode())
        yield


if sys.platform == "win32":
    import msvcrt

    _FAR: Final = 1 << 30
    """Windows forbids to read what is locked: a byte behind the text is."""

    def _taken(file: FileIO) -> bool:
        file.seek(_FAR)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def _taken(file: FileIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _holder(file: FileIO) -> str:
    file.seek(0)
    text = file.read(200).decode(errors="replace")
    return f" ({text})" if text else ""
