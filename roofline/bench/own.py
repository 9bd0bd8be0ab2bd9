"""The user's own calibrations, by the device that they are of."""

from functools import lru_cache
from pathlib import Path

from roofline.bench.profile import Profile
from roofline.bench.profile_file import folders, load


def mine(device: str) -> list[Profile]:
    """The user's own calibrations of a device, the latest first.

    Raises
    ------
    DocumentError
        One of them cannot be read.
    """
    line = f"\ndevice: {device}\n"  # of a file that `roofline calibrate` wrote, near its beginning
    paths = sorted(folders()[0].glob("*.yaml"))
    found = [path for path in paths if line in path.read_text(encoding="utf-8", errors="replace")]
    profiles = (_read_once(path, path.stat().st_mtime_ns) for path in found)
    return sorted(profiles, key=lambda each: each.date, reverse=True)


@lru_cache(maxsize=16)
def _read_once(path: Path, changed: int) -> Profile:
    """A calibration as it was when it last changed; sweeps ask again and again."""
    return load(path)
