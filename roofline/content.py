"""Where the shipped machines, probes, scenarios and page templates are.

In a checkout they are the folders beside ``roofline/``; in an installed wheel they are
``roofline/_content/``.
"""

import os
import sys
from pathlib import Path
from typing import Literal

from roofline.errors import InputError, UnknownNameError, did_you_mean, printable

Folder = Literal["hwspecs", "microbench", "scenarios", "reports"]

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: Folder) -> Path:
    """Folder that holds the content shipped with this installation."""
    installed = _PACKAGE / "_content" / folder
    return installed if installed.is_dir() else _PACKAGE.parent / folder


def shipped_or_own(kind: str, name: str, folder: Path) -> Path:
    """File of a folder by its name, or a YAML or JSON file by its path; else UnknownNameError."""
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    plain = name.strip().lower()
    if plain in names:
        return folder / f"{plain}.yaml"
    if Path(name).suffix.lower() in (".yaml", ".yml", ".json"):
        return Path(name)
    raise UnknownNameError(
        f"no {kind} {name!r:.60}",
        hint=f"{did_you_mean(plain, names)}{kind}s: {', '.join(names)}, or a YAML file",
    )


def home() -> Path:
    """Folder for what the user has measured: ``ROOFLINE_HOME``, else where programs keep data."""
    return _own("ROOFLINE_HOME", "XDG_DATA_HOME", "~/.local/share", "Application Support")


def cache() -> Path:
    """Folder for what can be made again: ``ROOFLINE_CACHE``, else where programs keep caches."""
    return _own("ROOFLINE_CACHE", "XDG_CACHE_HOME", "~/.cache", "Caches")


def _own(ours: str, standard: str, usual: str, mac: str) -> Path:
    try:
        if own := os.environ.get(ours):
            return Path(own).expanduser()
        if sys.platform == "win32":
            parent = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
        elif sys.platform == "darwin":
            parent = f"~/Library/{mac}"
        else:
            parent = os.environ.get(standard) or usual
        return Path(parent).expanduser() / "roofline"
    except RuntimeError:
        raise InputError(
            f"{ours} is in the home folder of a user that has none", hint=f"set {ours} to a folder"
        ) from None


def there(path: Path, kind: Literal["file", "folder"] = "file") -> bool:
    """Whether a file or folder is there; text that cannot be a path is not."""
    try:
        return path.is_dir() if kind == "folder" else path.is_file()
    except (OSError, ValueError):
        return False


def label(path: Path) -> str:
    r"""Path as it is shown: shipped content by its folder, whatever it is installed under.

    Control characters, and bytes that are no text, are shown as escapes.

    >>> label(shipped("hwspecs") / "gpus" / "h100-sxm.yaml")
    'hwspecs/gpus/h100-sxm.yaml'
    >>> label(Path("a\x1b.yaml"))
    'a\\x1b.yaml'
    """
    resolved = path if path.is_absolute() else Path.cwd() / path
    root = shipped("hwspecs").parent
    for folder in ("hwspecs", "microbench", "scenarios", "reports"):
        if resolved.is_relative_to(root / folder):
            return printable(resolved.relative_to(root).as_posix())
    return printable(str(path))
