"""Every public formula says the unit of each number it takes, and where it is from."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

COST: Final = Path(__file__).resolve().parent.parent / "roofline" / "cost"
FORMULA_RESULTS: Final = {"Number", "Work", "Transfer"}
NUMERIC: Final = {"Number", "float", "int", "float | None", "int | None"}
HELPERS: Final = {"plus", "times", "scaled"}
"""Return a Number and are not formulas: ``a + b`` and ``a * b`` without a needless pass."""
UNIT: Final = re.compile(r"\[(?:1|[A-Za-z$%]+(?:/[A-Za-z]+)?)\]")
REFERENCE: Final = re.compile(r"As in `(\w+)`")


def formulas(code: str) -> Iterator[ast.FunctionDef]:
    """Public functions of a module that return a number or work."""
    for node in ast.parse(code).body:
        if (
            isinstance(node, ast.FunctionDef)
            and not node.name.startswith("_")
            and node.name not in HELPERS
            and node.returns is not None
            and ast.unparse(node.returns) in FORMULA_RESULTS
        ):
            yield node


def faults(code: str) -> list[str]:
    """Gaps in the docstrings of a module's formulas."""
    every = list(formulas(code))
    entries = {node.name: described(ast.get_docstring(node) or "") for node in every}
    out = []
    for node in every:
        if "Source:" not in (ast.get_docstring(node) or ""):
            out.append(f"{node.name}: no source")
        for name in numeric_parameters(node):
            text = entries[node.name].get(name)
            if text is None:
                out.append(f"{node.name}: {name} is not described")
            elif not has_unit(text, name, entries):
                out.append(f"{node.name}: {name} has no [unit]")
    return out


def numeric_parameters(node: ast.FunctionDef) -> list[str]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [
        argument.arg
        for argument in arguments
        if argument.annotation is not None and ast.unparse(argument.annotation) in NUMERIC
    ]


def described(docstring: str) -> dict[str, str]:
    """Text under ``Args`` by parameter; names that share an entry share its text."""
    section = re.search(r"(?ms)^Args:\n(.*?)(?=^\S|\Z)", docstring)
    out: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else []:
        told = line.removeprefix("    ")
        if told and not told[0].isspace():
            head, _, told = told.partition(":")
            names = [name.strip() for name in head.split(",")]
            out.update(dict.fromkeys(names, ""))
        for name in names:
            out[name] = f"{out[name]} {told.strip()}"
    return out


def has_unit(text: str, name: str, entries: Mapping[str, Mapping[str, str]]) -> bool:
    """A unit in the text itself, or in that of a formula of the same module it refers to."""
    if UNIT.search(text):
        return True
    reference = REFERENCE.search(text)
    return bool(reference and UNIT.search(entries.get(reference[1], {}).get(name, "")))


MODULES: Final = sorted(COST.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(COST).as_posix())
def test_formulas_state_units_and_sources(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


def test_the_cost_model_has_formulas_to_read() -> None:
    every = [node.name for path in MODULES for node in formulas(path.read_text(encoding="utf-8"))]
    assert {"gemm", "attention", "all_reduce", "decode_step_time", "activation_bytes"} <= set(every)


GOOD: Final = '''
def area(width: Number, height: Number, *, mask: str = "") -> Number:
    """Area. [m]

    Source: Euclid.

    Args:
        width, height: Sides. [m]
        mask: Which.
    """

def twice(width: Number) -> Number:
    """Two of them. [m]

    Source: Euclid.

    Args:
        width: As in `area`.
    """
'''


@pytest.mark.parametrize(
    ("written", "planted", "said"),
    [
        ("Sides. [m]", "Sides.", "area: height has no [unit]"),
        ("Source: Euclid.", "Euclid said so.", "area: no source"),
        ("width, height: Sides", "width: Sides", "area: height is not described"),
        ("As in `area`.", "As in `volume`.", "twice: width has no [unit]"),
        ("[m]\n        mask", "see [1, 2]\n        mask", "area: width has no [unit]"),
    ],
)
def test_a_formula_without_unit_or_source_is_noticed(written: str, planted: str, said: str) -> None:
    assert faults(GOOD) == []
    assert said in faults(GOOD.replace(written, planted))
