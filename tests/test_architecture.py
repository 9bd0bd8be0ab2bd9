"""Who may import whom. A room may import the rooms before it, never those after or beside it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import roofline
from roofline.cli.flags import MARKED, flags

ROOMS = (
    {"errors", "notices", "records", "version"},
    {"units", "content", "part"},
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
DOOR = "the front door"
REPORT_SEES = {"table", "view", "units", "content", "errors", "files", "kept", "sources", "records"}
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
            found |= {parts[1] if parts[1:] else DOOR for parts in names if parts[0] == "roofline"}
    return {DOOR if name == "__version__" else name for name in found}


def violations(root: Path) -> list[str]:
    """Imports that point the wrong way, as sentences."""
    level = {name: i for i, names in enumerate(ROOMS) for name in names}
    out = []
    for path in files(root):
        own = room(path, root)
        if own == "__init__":
            continue  # the front door hands the API through, lazily
        for other in sorted(imported_rooms(path) - {own}):
            if other == DOOR:
                out.append(f"{own} must not import {DOOR}")
            elif other not in level:
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
        ("study/planted.py", "import roofline", "study must not import the front door"),
        (
            "cli/planted.py",
            "from roofline import __version__",
            "cli must not import the front door",
        ),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, place: str, line: str, sentence: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(line, encoding="utf-8")
    assert any(found.startswith(sentence) for found in violations(tmp_path))


def circle(root: Path) -> list[str]:
    """Modules of which each imports the next, at its top or where it runs; empty without one."""
    paths = {_module(path, root): path for path in files(root)}
    graph = {name: _imported(path, set(paths)) - {name} for name, path in paths.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _module(path: Path, root: Path) -> str:
    parts = ("roofline", *path.relative_to(root).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def _imported(path: Path, known: set[str]) -> set[str]:
    """Known modules that a module imports when it runs, those for types left out."""
    tree = parsed(path)
    typed = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in typed:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and id(node) not in typed and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in known else node.module for name in names}
    return found & known


@pytest.mark.slow
def test_no_modules_import_each_other() -> None:
    assert circle(ROOT) == []


def test_a_planted_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("from roofline.two import x", encoding="utf-8")
    (tmp_path / "two.py").write_text("def f():\n    import roofline.one", encoding="utf-8")
    assert {"roofline.one", "roofline.two"} == set(circle(tmp_path))


FLAG = re.compile(r"(?:^|[\s(`/])--[a-z]")
COMMAND = re.compile(
    r"(?:roofline [a-z-]+|calibrate|pip install|vLLM has)(?: …)?"
    r"(?:(?: and)? --[a-z-]+(?: (?!and|--)[^\s;`]+)?)+"
)
"""A whole command, or what another tool has, which is cited as it is typed."""
OTHER_TOOLS = {
    "interop/commands": "commands of the engines",
    "bench/end_to_end/kinds/drafted_rows.py": "what an engine was started with, in a row",
    "bench/gpu/compiling.py": "options of NVIDIA's compiler",
}
"""Places that name options of other programs."""


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every literal but documentation; ``{}`` for what is formatted into it."""
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, (ast.JoinedStr, ast.Expr))
        and (isinstance(node, ast.JoinedStr) or isinstance(node.value, ast.Constant))
        for part in ast.iter_child_nodes(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            yield node.lineno, node.value


def misnamed(root: Path) -> list[str]:
    """Literals outside the command line that have a flag, or a name that no option has."""
    out = []
    for path in files(root):
        place = path.relative_to(root).as_posix()
        if room(path, root) == "cli":
            continue
        for line, text in texts(parsed(path)):
            marks = [mark[0] for mark in MARKED.finditer(text)]
            out += [f"{place}:{line}: {mark}" for mark in marks if flags(mark) == mark]
            if FLAG.search(COMMAND.sub("", text)) and not place.startswith(tuple(OTHER_TOOLS)):
                out.append(f"{place}:{line}: {text}")
    return out


@pytest.mark.slow
def test_only_the_command_line_names_flags() -> None:
    assert misnamed(ROOT) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('hint = "give --batch 2"', True),
        ('hint = f"give --batch {most}"', True),
        ('hint = "give `bach=2`"', True),
        ('hint = f"give `batch={most}`"', False),
        ('hint = "calibrate it: roofline calibrate --backend cupy"', False),
        ('hint = "as roofline calibrate --from does; or --batch 2"', True),
    ],
)
def test_a_planted_flag_is_found(tmp_path: Path, line: str, found: bool) -> None:
    (tmp_path / "cost").mkdir()
    (tmp_path / "cost" / "planted.py").write_text(line, encoding="utf-8")
    assert bool(misnamed(tmp_path)) == found


def wired(root: Path) -> list[str]:
    """Sentences that call the interconnect wires; a word by itself is a name of code."""
    return [
        f"{path.relative_to(root)}:{line}: {text}"
        for path in files(root)
        for line, text in texts(parsed(path))
        if " " in text.strip() and re.search(r"\b[Ww]ires?\b", text)
    ]


@pytest.mark.slow
def test_sentences_call_the_interconnect_links() -> None:
    assert wired(ROOT) == []


def test_a_planted_wire_is_found(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("a, b = {'wire': 0}, f'{a} has no wires'")
    assert wired(tmp_path) == ["planted.py:1: {} has no wires"]


def test_every_folder_of_the_package_is_a_room() -> None:
    known = set().union(*ROOMS) | {"__init__"}
    assert {room(path, ROOT) for path in files(ROOT)} <= known


def twice(root: Path) -> dict[str, list[str]]:
    """Modules of each class name that more than one has."""
    homes: dict[str, list[str]] = {}
    for path in files(root):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(root)))
    return {name: places for name, places in homes.items() if len(places) > 1}


def test_a_class_name_has_one_meaning() -> None:
    assert twice(ROOT) == {}


def test_a_planted_second_meaning_is_found(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / f"{name}.py").write_text("class Plan:\n    pass\n", encoding="utf-8")
    assert twice(tmp_path) == {"Plan": ["one.py", "other.py"]}


def test_only_the_command_line_prints() -> None:
    for path in files(ROOT):
        if room(path, ROOT) == "cli" or "print(" not in path.read_text("utf-8"):
            continue
        for node in ast.walk(parsed(path)):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            assert not (called and node.func.id == "print"), f"{path} prints"  # type: ignore[attr-defined]


def priced(root: Path) -> list[str]:
    """Places outside `serving.price` that divide a price of an hour into one of seconds."""
    return [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in files(root)
        if path.relative_to(root) != Path("serving/price.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and ast.unparse(node.right) == "SECONDS_PER_HOUR"
        and "usd_per_hour" in ast.unparse(node.left)
    ]


def test_one_formula_prices_a_token() -> None:
    assert priced(ROOT) == []


def test_a_planted_price_of_a_token_is_found(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("a = gpu.usd_per_hour * 2 / SECONDS_PER_HOUR / rate")
    assert priced(tmp_path) == ["planted.py:1"]


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


def test_records_of_both_kinds_are_copied_by_one_function() -> None:
    for path in [*files(ROOT), *files(Path(__file__).parent)]:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "dataclasses":
                names = {alias.name for alias in node.names} & {"replace"}
                assert not names or path == ROOT / "records.py", f"{path} imports {names}"


WRITTEN = {"1e3", "1e6", "1e9", "1e12", "1e15", "1e-3", "1e-6", "1e-9"}
SCALES = {float(text) for text in WRITTEN}


def bounded(node: ast.AST) -> bool:
    """Whether a call gives the bounds of a fitted constant, which are values with a unit."""
    name = node.func if isinstance(node, ast.Call) else None
    return isinstance(name, ast.Name) and name.id == "FormConstant"


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


MIXERS = {"Attention", "Mla", "CompressedAttention", "Recurrent"}
BY_KIND = {
    "model/changes/attention.py",
    "model/changes/pruning.py",
    "model/changes/values.py",
    "cost/layers/attention.py",
    "serving/lecture.py",
    "serving/phases.py",
    "serving/quadrature.py",
    "bench/sparse_rows.py",
}
"""Files that ask for the kind of a mixer: they change one kind into another, are of one kind, or
read measurements of one."""


FEEDFORWARDS = {"FeedForward", "DensePart", "Mlp", "Moe"}
OF_ONE_FEEDFORWARD = {"serving/lecture.py"}
"""Files that ask for the kind of a feed-forward part: the textbook's forms are of one kind."""


def asked_kinds(tree: ast.Module, kinds: set[str]) -> bool:
    """Whether some `isinstance` asks for one of those kinds."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and any(isinstance(name, ast.Name) and name.id in kinds for name in ast.walk(node.args[1]))
        for node in ast.walk(tree)
    )


def askers(kinds: set[str]) -> set[str]:
    """Files that ask for one of those kinds."""
    return {str(path.relative_to(ROOT)) for path in files(ROOT) if asked_kinds(parsed(path), kinds)}


def test_mixers_are_asked_what_they_are_not_which() -> None:
    """Another file that wants to know should ask `Mixer` for the property that it depends on."""
    assert askers(MIXERS) == BY_KIND
    assert asked_kinds(ast.parse("isinstance(part, Mla | Attention)"), MIXERS)


def test_feedforward_parts_are_asked_what_they_are_not_which() -> None:
    """Another file that wants to know should ask `FeedForward` for the property."""
    assert askers(FEEDFORWARDS) == OF_ONE_FEEDFORWARD


def sniffs(tree: ast.Module) -> bool:
    """Whether the name of an operator, ``op``, is taken apart or compared with another."""

    def named(node: ast.AST) -> bool:
        return ast.unparse(node) in ("op.name", "entry.op.name", "each.op.name")

    return any(
        (isinstance(node, ast.Attribute | ast.Subscript) and named(node.value))
        or (isinstance(node, ast.Compare) and any(map(named, (node.left, *node.comparators))))
        for node in ast.walk(tree)
    )


def test_nothing_reads_the_name_of_an_operator_for_its_meaning() -> None:
    """An operator says its kernel, and whose it is, in fields; its name is for people."""
    found = [path for path in files(ROOT) if sniffs(parsed(path))]
    assert found == []
    assert sniffs(ast.parse("GROUP in op.name"))
    assert sniffs(ast.parse("op.name.startswith('quantise')"))
