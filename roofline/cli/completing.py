"""Names that a shell completes: file names of the catalogs; nothing is opened or imported."""

from collections.abc import Callable
from pathlib import Path

from roofline.content import Folder, home, shipped


def _catalog(content: Folder, folder: str = "") -> Callable[[str], list[str]]:
    """Completion by the names of a catalog: files in a folder of the content."""

    def complete(incomplete: str) -> list[str]:
        return _starting(incomplete, shipped(content) / folder)

    return complete


gpus = _catalog("hwspecs", "gpus")
nodes = _catalog("hwspecs", "nodes")
engines = _catalog("hwspecs", "engines")
harnesses = _catalog("hwspecs", "harnesses")
models = _catalog("scenarios", "models")
workloads = _catalog("scenarios", "workloads")
scenarios = _catalog("scenarios")


def calibrations(incomplete: str) -> list[str]:
    """Values of ``--calibration``: its two words, and the user's own files."""
    words = [word for word in ("auto", "none") if word.startswith(incomplete)]
    return words + _starting(incomplete, home() / "calibrations")


def _starting(incomplete: str, folder: Path) -> list[str]:
    """Names of a folder's YAML files that start so, sorted."""
    start = incomplete.lower()
    return sorted(path.stem for path in folder.glob("*.yaml") if path.stem.startswith(start))
