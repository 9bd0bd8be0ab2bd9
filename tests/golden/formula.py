"""The formulas of SYMBOLIC rows: ``sbh(10+24/t+5as/(ht))``. Letters are variables of one letter."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z])|([-+*/^()]))")


@dataclass(frozen=True)
class Formula:
    """An expression over one-letter variables."""

    text: str
    tree: ast.expr

    @property
    def letters(self) -> frozenset[str]:
        return frozenset(node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))

    def at(self, point: Mapping[str, float]) -> float:
        return _value(self.tree, point)


@dataclass(frozen=True)
class Statement:
    """A formula, and what it tends to as the letters the limit lacks grow, if a limit is given."""

    formula: Formula
    limit: Formula | None = None


def statements(text: str) -> dict[str, Statement]:
    """Formulas by label: ``"TP: a; TP+SP: b"`` has two, one alone has the label ``""``."""
    out = {}
    for part in text.split(";"):
        label, _, body = part.rpartition(":")
        left, _, right = body.partition("->")
        out[label.strip()] = Statement(formula(left), formula(right) if right.strip() else None)
    return out


def formula(text: str) -> Formula:
    """Read an expression; letters and brackets that touch are multiplied."""
    source, position, touching = "", 0, False
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"{text!r}: unexpected {text[position]!r}")
        number, letter, sign = match.groups()
        if touching and (number or letter or sign == "("):
            if text[position].isspace():
                raise ValueError(f"{text!r}: no operator before {match[0]!r}")
            source += "*"
        source += number or letter or ("**" if sign == "^" else sign)
        touching = bool(number or letter) or sign == ")"
        position = match.end()
    return Formula(text, ast.parse(source, mode="eval").body)


def _value(node: ast.expr, point: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=letter):
            return point[letter]
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, point), _value(right, point)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return a / b
                case ast.Pow():
                    return float(a**b)
    raise ValueError(f"not in a formula: {ast.dump(node)}")
