"""Put a page on disk whole, or not at all."""

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from roofline.errors import InputError, MissingEnvironmentError, RooflineError
from roofline.report.page import render
from roofline.table import Result

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write(result: Result, path: Path) -> None:
    """Write the report of a result as one HTML file.

    A reader of ``path`` finds the page that was there before or the new one, never a part.

    Args:
        result: What to report.
        path: File to write; one that exists is replaced.

    Raises:
        InputError: The path is a folder, or its folder does not exist.
        MissingEnvironmentError: The file cannot be written: no permission, no space.
    """
    _check(path)
    page = render(result).encode()
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(page)  # a pipe or a device: it must not be replaced by a file
        else:
            _replace(path.resolve(), page)
    except (OSError, ValueError) as problem:
        raise _explained(problem, path) from problem


def _check(path: Path) -> None:
    shown = _shown(path)
    try:
        if path.is_dir():
            raise InputError(
                f"{shown} is a folder", hint="give the name of a file, like report.html"
            )
        if not path.parent.is_dir():
            folder = _shown(path.parent)
            raise InputError(
                f"there is no folder {folder} to write {_shown(Path(path.name))} into",
                hint="create the folder first, or give another path",
            )
    except (OSError, ValueError) as problem:
        raise _explained(problem, path) from problem


def _replace(path: Path, page: bytes) -> None:
    # The same folder, so that the rename stays on one disk; a name of fixed length, so that a
    # long but legal name stays legal.
    temporary = path.with_name(f".roofline-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _explained(problem: Exception, path: Path) -> RooflineError:
    shown = _shown(path)
    if not isinstance(problem, OSError):
        return InputError(f"{shown} is not a path", hint="give a file name like report.html")
    if problem.errno in _FULL:
        return MissingEnvironmentError(
            f"there is no space left to write {shown}",
            hint="free about 2 MB on that disk, or give a path on another one",
        )
    if problem.errno == errno.ENAMETOOLONG:
        return InputError(f"the name {shown} is too long", hint="give a shorter file name")
    reason = problem.strerror or type(problem).__name__
    return MissingEnvironmentError(
        f"cannot write {shown}: {reason}", hint="give a path in a folder you can write to"
    )


def _shown(path: Path) -> str:
    """A path for a message: control characters and halves of a pair as escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(path))
