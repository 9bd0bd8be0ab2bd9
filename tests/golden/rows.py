"""Rows of golden.csv, and how a row becomes arguments of a function.

An `Adapter` names a function and, for each parameter, where in the row its value stands. All
reading and converting happens here, so that the adapters are tables without arithmetic.
"""

import csv
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from roofline.model.precision import named
from roofline.units import BITS_PER_BYTE, PREFIX, SECONDS_PER_HOUR

SCALE: Final[Mapping[str, float]] = {
    **dict.fromkeys(
        ("FLOP", "B", "B/s", "FLOP/s", "Hz", "s", "x", "bytes", "bytes/s", "cores"), 1.0
    ),
    **dict.fromkeys(
        (
            "params",
            "tokens",
            "tokens/step",
            "experts",
            "tok/s",
            "tok/s/chip",
            "qps/chip",
            "FLOP/cycle",
        ),
        1.0,
    ),
    **dict.fromkeys(
        ("sequences", "chips", "groups", "ratio", "elements", "FLOP/byte", "OP/byte"), 1.0
    ),
    "": 1.0,
    "%": 1 / 100,
    "slots": 1.0,
    "ways": 1.0,
    "bit": 1 / BITS_PER_BYTE,
    "bit/s": 1 / BITS_PER_BYTE,
    "KiB": PREFIX["Ki"],
    "GB": PREFIX["G"],
    "GiB": PREFIX["Gi"],
    "Gbit/s": PREFIX["G"],
    "TFLOPS": PREFIX["T"],
    "ms": PREFIX["m"],
    "h": SECONDS_PER_HOUR,
    "days": 24 * SECONDS_PER_HOUR,
}
"""Units that rows are written in, in ours. A unit that is not here is an error."""

_NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(.*)")


@dataclass(frozen=True)
class Row:
    """One golden number."""

    id: str
    topic: str
    source: str
    quoted: Mapping[str, Any]
    quantity: str
    unit: str
    tolerance: str
    status: str
    usable: str
    text: str = field(repr=False)

    @property
    def expected(self) -> float:
        """Usable value in base units."""
        return float(self.usable) * SCALE[self.unit]

    @property
    def symbolic(self) -> bool:
        return self.status == "SYMBOLIC"

    @property
    def measured(self) -> bool:
        return self.status == "MEASURED_OR_CLAIM"


@cache
def rows() -> Mapping[str, Row]:
    """All rows by id."""
    with (Path(__file__).parent / "golden.csv").open(encoding="utf-8", newline="") as file:
        entries = list(csv.DictReader(file))
    out = {
        entry["id"]: Row(
            id=entry["id"],
            topic=entry["topic"],
            source=entry["source"],
            quoted=json.loads(entry["quoted_inputs"]),
            quantity=entry["quantity"],
            unit=entry["unit"],
            tolerance=entry["tolerance_suggested"],
            status=entry["status"],
            usable=entry["usable_value"],
            text=" | ".join(entry.values()),
        )
        for entry in entries
    }
    assert len(out) == len(entries), "two rows have the same id"
    return out


def number(text: str) -> float:
    """A number with one of the units above, in base units."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit")
    return float(match[1]) * SCALE[match[2]]


@dataclass(frozen=True)
class Quoted:
    """A quoted input of the row, or of another row of the same source that it leans on."""

    key: str
    unit: str = ""
    row: str = ""

    def value(self, row: Row) -> float:
        asked = rows()[self.row] if self.row else row
        assert asked.source.split()[:2] == row.source.split()[:2], f"{self.row}: another source"
        raw = asked.quoted[self.key]
        return number(raw) if isinstance(raw, str) else raw * SCALE[self.unit]


@dataclass(frozen=True)
class Width:
    """Bytes per element of a quoted number format."""

    key: str = "dtype"

    def value(self, row: Row) -> float:
        return named(row.quoted[self.key]).width


@dataclass(frozen=True)
class Printed:
    """A number that stands in the row outside its quoted inputs, exactly as written there."""

    text: str

    def value(self, row: Row) -> float:
        assert self.text in row.text, f"{row.id} does not say {self.text!r}"
        return number(self.text)


@dataclass(frozen=True)
class Implied:
    """A value that words of the row mean: ``Implied(2, "bf16")``."""

    meaning: float | str
    words: str

    def value(self, row: Row) -> float | str:
        assert self.words in row.text, f"{row.id} does not say {self.words!r}"
        return self.meaning


@dataclass(frozen=True)
class Symbol:
    """A letter of a symbolic row."""

    letter: str


@dataclass(frozen=True)
class Adapter:
    """A function of ours and where its arguments come from; another adapter's result may be one."""

    function: Callable[..., Any]
    inputs: Mapping[str, "Input"]

    @property
    def letters(self) -> frozenset[str]:
        out = {source.letter for source in self.inputs.values() if isinstance(source, Symbol)}
        nested = [source for source in self.inputs.values() if isinstance(source, Adapter)]
        return frozenset(out).union(*(adapter.letters for adapter in nested))


Input: TypeAlias = Quoted | Width | Printed | Implied | Symbol | Adapter
Entry: TypeAlias = Adapter | Mapping[str, Adapter]
"""A mapping answers a row with several labelled formulas."""


def ours(adapter: Adapter, row: Row, point: Mapping[str, float] | None = None) -> float:
    """Our number for a row, in base units; at a point if the row is symbolic."""

    def value(source: Input) -> float | str:
        if isinstance(source, Adapter):
            return ours(source, row, point)
        if isinstance(source, Symbol):
            assert point is not None, f"{row.id} is not symbolic"
            return point[source.letter]
        return source.value(row)

    return float(
        adapter.function(**{name: value(source) for name, source in adapter.inputs.items()})
    )
