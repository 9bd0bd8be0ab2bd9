"""Values of formulas that are written as people read them."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from roofline.units import PREFIX

_UNITS: Final = ("FLOP/s", "token/s", "FLOP", "B/s", "s/h", "$/h", "W", "B", "s")
_QUANTITY: Final = re.compile(
    r"(?<![a-z\d.])(\d+(?:\.\d*)?(?:e[+-]?\d+)?)"
    rf"(?:\s+({'|'.join(sorted((p for p in PREFIX if p), key=len, reverse=True))})?"
    rf"({'|'.join(re.escape(u) for u in _UNITS)})(?![\w/]))?"
)
_OPERATORS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "max": max,
    "min": min,
    "ceil": lambda value: float(math.ceil(value)),
    "floor": lambda value: float(math.floor(value)),
    "log2": math.log2,
}
_SIGNS: Final = str.maketrans({"·": "*", "−": "-", "^": "**"})
_NAME: Final = re.compile(r"[^\W\d][\w-]*(?: [\w-]+)*")


def evaluated(text: str) -> float:
    """Value of a formula with numbers put in, its quantities in base units."""
    body, _, where = text.partition(", S = ")
    if where:
        body = re.sub(r"\bS\b", where.replace(",", ""), body)
    return _value(_parsed(body), {})


def _parsed(body: str) -> ast.expr:
    """Expression whose quantities are in base units."""

    def plain(match: re.Match[str]) -> str:
        number, prefix, _ = match.groups()
        return repr(float(number) * PREFIX[prefix or ""])

    # A comma between digits groups thousands; one before a space separates arguments.
    body = re.sub(r"(?<=\d),(?=\d)", "", body)
    return ast.parse(_QUANTITY.sub(plain, body).translate(_SIGNS), mode="eval").body


def worth(text: str, symbols: Mapping[str, float]) -> float:
    """Value of a formula in symbols; what is in brackets counts where all its symbols are there.

    >>> worth("2 · n[ + in between][ / CP]", {"n": 3.0, "CP": 2.0})
    3.0
    """
    tree, names = _read(text, frozenset(symbols))
    return (
        _value(tree, {place: float(symbols[name]) for place, name in names}) if tree else math.nan
    )


@lru_cache(maxsize=4096)
def _read(text: str, known: frozenset[str]) -> tuple[ast.expr | None, tuple[tuple[str, str], ...]]:
    """Expression of a formula, and which symbol each of its names stands for.

    The same few texts are evaluated for every layer of every layout.
    """
    places: dict[str, str] = {}

    def kept(match: re.Match[str]) -> str:
        return match[1] if all(name in known for name in _NAME.findall(match[1])) else ""

    def place(match: re.Match[str]) -> str:
        if match[0] in _FUNCTIONS:
            return match[0]
        if match[0] not in known:
            raise KeyError(match[0])
        return f"({places.setdefault(match[0], f'x{len(places)}')})"

    body = _NAME.sub(place, re.sub(r"\[([^\]]*)\]", kept, text))
    named = tuple((name, symbol) for symbol, name in places.items())
    return (_parsed(body) if body else None), named


def _value(node: ast.expr, symbols: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        return node.value
    if isinstance(node, ast.Name):
        return symbols[node.id]
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, symbols), _value(node.right, symbols))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](*(_value(part, symbols) for part in node.args))
