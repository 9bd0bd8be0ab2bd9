"""Who may import whom. A room may import the rooms before it, never those after or beside it."""

import ast
from functools import cache
from pathlib import Path

import pytest

import roofline

ROOMS = (
    {"errors", "notices"},
    {"units", "content"},
    {"files", "sources"},
    {"schema", "table", "kept", "special"},
    {"compiling"},
    {"hardware"},
    {"model"},
    {"cost"},
    {"serving"},
    {"study"},
    {"view"},
    {"bench", "interop", "report"},
    {"api"},
    {"cli"},
    {"__main__"},
)
REPORT_SEES = {"table", "view", "units", "content", "errors", "files", "sources"}
HEAVY = {"pandas", "plotly", "scipy", "cupy", "ray", "pyarrow", "rich"}
ROOT = Path(roofline.__file__).parent


def files(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*.py")) if "_content" not in path.parts]


def room(path: Path, root: Path) -> str:
    return path.relative_to(root).parts[0].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "roofline":
            rest = (node.module or "").split(".")[1:]
            found |= {rest[0]} if rest else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {parts[1] for parts in names if parts[0] == "roofline" and len(parts) > 1}
    return found - {"__version__"}


def violations(root: Path) -> list[str]:
    """Imports that point the wrong way, as sentences."""
    level = {name: i for i, names in enumerate(ROOMS) for name in names}
    out = []
    for path in files(root):
        own = room(path, root)
        if own == "__init__":
            continue  # the front door hands the API through, lazily
        for other in sorted(imported_rooms(path) - {own}):
            if other not in level:
                out.append(f"{own} imports {other}, which is no room")
            elif level[other] >= level[own]:
                out.append(f"{own} must not import {other}")
            elif own in ("report", "view") and other not in REPORT_SEES:
                out.append(f"{own} must not see {other}")
    return out


@pytest.mark.slow
def test_imports_run_one_way() -> None:
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("place", "line", "sentence"),
    [
        ("cost/planted.py", "from roofline.serving import static", "cost must not import serving"),
        ("bench/planted.py", "import roofline.report.page", "bench must not import report"),
        ("report/planted.py", "from roofline.cost import work", "report must not see cost"),
        ("model/planted.py", "def f():\n    from roofline import api", "model must not import api"),
        ("cost/planted.py", "from roofline.nowhere import x", "cost imports nowhere, which is no"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, place: str, line: str, sentence: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(line, encoding="utf-8")
    assert any(found.startswith(sentence) for found in violations(tmp_path))


def test_every_folder_of_the_package_is_a_room() -> None:
    known = set().union(*ROOMS) | {"__init__"}
    assert {room(path, ROOT) for path in files(ROOT)} <= known


def test_only_the_command_line_prints() -> None:
    for path in files(ROOT):
        if room(path, ROOT) == "cli":
            continue
        for node in ast.walk(parsed(path)):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            assert not (called and node.func.id == "print"), f"{path} prints"  # type: ignore[attr-defined]


def test_heavy_libraries_are_imported_where_they_are_used() -> None:
    for path in files(ROOT):
        for node in parsed(path).body:
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            heavy = {name.split(".")[0] for name in names} & HEAVY
            assert not heavy, f"{path} imports {heavy} at its top"


WRITTEN = {"1e3", "1e6", "1e9", "1e12", "1e15", "1e-3", "1e-6", "1e-9"}
SCALES = {float(text) for text in WRITTEN}


def bounded(node: ast.AST) -> bool:
    """Whether a call gives the bounds of a fitted constant, which are values with a unit."""
    name = node.func if isinstance(node, ast.Call) else None
    return isinstance(name, ast.Name) and name.id == "Constant"


@pytest.mark.slow
def test_prefixes_are_powers_only_in_units() -> None:
    """A scale like 1e9 or 1024**3 outside `units` is a unit conversion in the wrong place."""
    for path in files(ROOT):
        if path.name == "units.py":
            continue
        tree = parsed(path)
        bounds = {id(part) for call in ast.walk(tree) if bounded(call) for part in ast.walk(call)}
        for node in ast.walk(tree):
            if id(node) in bounds:
                continue
            if isinstance(node, ast.Constant) and node.value in SCALES:
                text = ast.get_source_segment(path.read_text(encoding="utf-8"), node) or ""
                scale = text.lower() in WRITTEN
                assert not scale, f"{path}:{node.lineno} converts units: {text}"
