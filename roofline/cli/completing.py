"""Names that a shell completes: file names of the catalogs; nothing is opened or imported."""

from pathlib import Path

from roofline.content import home, shipped


def gpus(incomplete: str) -> list[str]:
    """GPUs of the catalog."""
    return _starting(incomplete, shipped("hwspecs") / "gpus")


def nodes(incomplete: str) -> list[str]:
    """Nodes of the catalog."""
    return _starting(incomplete, shipped("hwspecs") / "nodes")


def engines(incomplete: str) -> list[str]:
    """Engines of the catalog."""
    return _starting(incomplete, shipped("hwspecs") / "engines")


def models(incomplete: str) -> list[str]:
    """Networks of the catalog."""
    return _starting(incomplete, shipped("scenarios") / "models")


def workloads(incomplete: str) -> list[str]:
    """Workloads of the catalog."""
    return _starting(incomplete, shipped("scenarios") / "workloads")


def harnesses(incomplete: str) -> list[str]:
    """Harnesses of the catalog."""
    return _starting(incomplete, shipped("hwspecs") / "harnesses")


def scenarios(incomplete: str) -> list[str]:
    """Scenarios of the catalog."""
    return _starting(incomplete, shipped("scenarios"))


def calibrations(incomplete: str) -> list[str]:
    """What ``--calibration`` takes: its two words, and the user's own."""
    words = [word for word in ("auto", "none") if word.startswith(incomplete)]
    return words + _starting(incomplete, home() / "calibrations")


def _starting(incomplete: str, folder: Path) -> list[str]:
    """Names of a folder's YAML files that start so, sorted."""
    start = incomplete.lower()
    return sorted(path.stem for path in folder.glob("*.yaml") if path.stem.startswith(start))
