"""Measurements and profiles on the disk: whole or not at all, and an error that says why not."""

from pathlib import Path

from roofline.content import label
from roofline.errors import MissingEnvironmentError
from roofline.files import whole


def write(path: Path, content: bytes) -> None:
    """Write a file and the folders that it needs.

    Raises:
        MissingEnvironmentError: The folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as file:
            file.write(content)
    except OSError as error:
        raise MissingEnvironmentError(
            f"{label(path)} cannot be written: {error.strerror}",
            hint="free some space, or choose another folder with ROOFLINE_HOME",
        ) from None
