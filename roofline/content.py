"""Where the shipped machines, probes, scenarios and page templates are.

In a checkout they are the folders beside ``roofline/``; in an installed wheel they are
``roofline/_content/``.
"""

from pathlib import Path
from typing import Literal

Folder = Literal["hwspecs", "microbench", "scenarios", "reports"]

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: Folder) -> Path:
    """Folder that holds the content shipped with this installation."""
    installed = _PACKAGE / "_content" / folder
    return installed if installed.is_dir() else _PACKAGE.parent / folder


def label(path: Path) -> str:
    """How to show a path: shipped content by its folder, whatever it is installed under.

    >>> label(shipped("hwspecs") / "gpus" / "h100-sxm.yaml")
    'hwspecs/gpus/h100-sxm.yaml'
    """
    resolved = path if path.is_absolute() else Path.cwd() / path
    root = shipped("hwspecs").parent
    for folder in ("hwspecs", "microbench", "scenarios", "reports"):
        if resolved.is_relative_to(root / folder):
            return resolved.relative_to(root).as_posix()
    return str(path)
