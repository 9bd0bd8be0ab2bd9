"""Files of published packages, without what these depend on.

They are downloaded once, into ``roofline-packages`` of the folder for temporary files, or are
already there or in the folder that ``ROOFLINE_PACKAGES`` names.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pytest

from roofline.interop.commands.pins import Package

FOLDER = Path(
    os.environ.get("ROOFLINE_PACKAGES") or Path(tempfile.gettempdir()) / "roofline-packages"
)
LIMIT_S = 300
"""Longest time that a download may take. [s]"""


@cache
def files_of(package: Package) -> dict[str, str]:
    """Sources of a package as text, by their place in it; skips the test where none are had."""
    stem = package.name.replace("-", "_")
    pattern = f"{stem}-{package.release}" + ("-*.whl" if package.wheel else ".tar.gz")
    found = sorted(FOLDER.glob(pattern))
    if not found:
        FOLDER.mkdir(exist_ok=True)
        kind = ("--only-binary", ":all:") if package.wheel else ("--no-binary", package.name)
        words = ["download", "--quiet", "--no-deps", *kind, "--dest", str(FOLDER)]
        try:
            subprocess.run(
                [sys.executable, "-m", "pip", *words, f"{package.name}=={package.release}"],
                check=True,
                capture_output=True,
                timeout=LIMIT_S,
            )
        except (subprocess.SubprocessError, OSError) as error:
            why = type(error).__name__
            pytest.skip(f"NOT CHECKED: {package.name} {package.release} cannot be had ({why})")
        found = sorted(FOLDER.glob(pattern))
    if package.wheel:
        with zipfile.ZipFile(found[0]) as wheel:
            names = [name for name in wheel.namelist() if _is_of(name, package)]
            return {name: wheel.read(name).decode("utf-8", "replace") for name in names}
    out = {}
    with tarfile.open(found[0]) as sources:
        for member in sources:
            name = member.name.partition("/")[2]
            if member.isfile() and _is_of(name, package):
                stream = sources.extractfile(member)
                assert stream is not None
                out[name] = stream.read().decode("utf-8", "replace")
    return out


def _is_of(name: str, package: Package) -> bool:
    return name.startswith(package.sources) and name.endswith((".py", ".cpp", ".json", ".yaml"))
