"""Calibrations by name, and the user's own by the device that they are of."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from roofline.content import home, shipped, there
from roofline.errors import UnknownNameError

if TYPE_CHECKING:
    from roofline.bench.profile import Profile

FOLDER: Final = "calibrations"
Stamp: TypeAlias = tuple[Path, int]
"""A file, and when it last changed. [ns]"""


def folders() -> tuple[Path, Path]:
    """Folders of calibrations: the user's own, then those shipped."""
    return home() / FOLDER, shipped("hwspecs") / FOLDER


def find(name: str) -> "Profile":
    """A calibration by name, the user's own before one that is shipped, or by path.

    Raises:
        UnknownNameError: There is none of that name.
        DocumentError: It cannot be read.
    """
    return _read(*stamped(path_of(name)))


def path_of(name: str) -> Path:
    """File of a calibration, as `find` takes it.

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    for folder in folders():
        if there(folder / f"{name}.yaml"):
            return folder / f"{name}.yaml"
    known = sorted({path.stem for folder in folders() for path in folder.glob("*.yaml")})
    raise UnknownNameError(
        f"there is no calibration {name!r:.80}",
        hint=f"there are {', '.join(known)}" if known else "make one: roofline calibrate",
    )


def files_of(device: str) -> tuple[Stamp, ...]:
    """Files of the user's own calibrations of a device, by name."""
    line = f"\ndevice: {device}\n"  # of a file that `roofline calibrate` wrote, near its beginning
    paths = sorted(folders()[0].glob("*.yaml"))
    found = [path for path in paths if line in path.read_text(encoding="utf-8", errors="replace")]
    return tuple(map(stamped, found))


def stamped(path: Path) -> Stamp:
    """A file and when it last changed, 0 where it cannot be read: reading it says why."""
    try:
        return path, path.stat().st_mtime_ns
    except OSError:
        return path, 0


def read(files: Sequence[Stamp]) -> "list[Profile]":
    """Calibrations of some files, the latest first.

    Raises:
        DocumentError: One of them cannot be read.
    """
    profiles = (_read(path, changed) for path, changed in files)
    return sorted(profiles, key=lambda each: each.date, reverse=True)


@lru_cache(maxsize=16)
def _read(path: Path, changed: int) -> "Profile":
    """A calibration as it was when it last changed; sweeps ask again and again."""
    from roofline.bench.profile_file import load

    return load(path)
