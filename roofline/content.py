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
