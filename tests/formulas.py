"""Values of formulas that are written as people read them."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
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

    def plain(match: re.Match[str]) -> str:
        number, prefix, _ = match.groups()
        return repr(float(number) * PREFIX[prefix or ""])

    # A comma between digits groups thousands; one before a space separates arguments.
    body = re.sub(r"(?<=\d),(?=\d)", "", body)
    return _value(ast.parse(_QUANTITY.sub(plain, body).translate(_SIGNS), mode="eval").body)


def worth(text: str, symbols: Mapping[str, float]) -> float:
    """Value of a formula in symbols; what is in brackets counts where all its symbols are there.

    >>> worth("2 · n[ + in between][ / CP]", {"n": 3.0, "CP": 2.0})
    3.0
    """

    def kept(match: re.Match[str]) -> str:
        return match[1] if all(name in symbols for name in _NAME.findall(match[1])) else ""

    def number(match: re.Match[str]) -> str:
        return match[0] if match[0] in _FUNCTIONS else repr(float(symbols[match[0]]))

    body = _NAME.sub(number, re.sub(r"\[([^\]]*)\]", kept, text))
    return evaluated(body) if body else math.nan


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        return node.value
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](*(_value(part) for part in node.args))
