"""Limits and objectives by column: what configurations must keep to, what is wanted of them."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.errors import InputError, QuantityError, UnknownNameError, did_you_mean
from roofline.study.sweep.keep import UNKNOWN, FigureLimit, SweepObjective, judged
from roofline.units import parse

Kind: TypeAlias = Literal["batch", "traffic"]


class NumericColumn(Struct, frozen=True):
    """A column with numbers."""

    unit: str
    """Unit of its values; empty for a plain number."""
    larger: bool = False
    """True if more of it is better."""
    interval: bool = False
    """True if it has ends, ``_low`` and ``_high``."""
    most: float = math.inf
    """Largest possible value; none is below 0."""


_BOTH: Final = {
    "gpus": NumericColumn(""),
    "ttft_s": NumericColumn("s", interval=True),
    "tpot_s": NumericColumn("s", interval=True),
    "latency_s": NumericColumn("s", interval=True),
    "usd_per_mtok": NumericColumn("$", interval=True),
}
_ENDS: Final = ("_low", "_high")
_PLAIN: Final[Mapping[Kind, Mapping[str, NumericColumn]]] = {
    "batch": {
        **_BOTH,
        "ttft_idle_s": NumericColumn("s", interval=True),
        "tpot_steady_s": NumericColumn("s", interval=True),
        "batch": NumericColumn("", larger=True),
        "prompt": NumericColumn("token", larger=True),
        "output": NumericColumn("token", larger=True),
        "throughput_tok_s": NumericColumn("tok/s", larger=True, interval=True),
        "throughput_per_gpu_tok_s": NumericColumn("tok/s", larger=True),
        "user_tok_s": NumericColumn("tok/s", larger=True, interval=True),
        "joule_per_mtok": NumericColumn("J"),
        "memory_bytes": NumericColumn("B"),
        "free_bytes": NumericColumn("B", larger=True),
    },
    "traffic": {
        **_BOTH,
        "rate_per_s": NumericColumn("request/s", larger=True),
        "concurrency": NumericColumn("", larger=True),
        "requests_per_s": NumericColumn("request/s", larger=True),
        "saturation_per_s": NumericColumn("request/s", larger=True, interval=True),
        "served_chance": NumericColumn("", larger=True, most=1.0),
        "utilisation": NumericColumn(""),
        "queue_s": NumericColumn("s"),
        "ttft_p99_s": NumericColumn("s"),
        "tpot_p99_s": NumericColumn("s"),
        "output_tok_s": NumericColumn("tok/s", larger=True, interval=True),
        "output_per_gpu_tok_s": NumericColumn("tok/s", larger=True),
    },
}
FIGURES: Final[Mapping[Kind, Mapping[str, NumericColumn]]] = {
    kind: {
        **figures,
        **{
            name + end: NumericColumn(figure.unit, figure.larger)
            for name, figure in figures.items()
            if figure.interval
            for end in _ENDS
        },
    }
    for kind, figures in _PLAIN.items()
}
"""Columns that a limit or an objective can be about, by kind of scenario."""
USUAL: Final[Mapping[Kind, tuple[str, ...]]] = {
    "batch": ("min tpot_steady_s", "min usd_per_mtok"),
    "traffic": ("min latency_s", "min usd_per_mtok"),
}
"""Objectives of a scenario that names none."""
STATIC: Final = ("min tpot_s", "min usd_per_mtok")
"""Columns of batches that are ranked as static ones."""
_COMPARED: Final = re.compile(r"\s*(<=|>=|≤|≥)\s*(.+)")


def limit(kind: Kind, column: str, asked: float | str) -> FigureLimit:
    """Read a limit: ``500 ms``, ``">= 20"``; without a sign the side that is the worse one.

    Raises:
        UnknownNameError: No such column has figures.
        InputError: It is no quantity of the column's unit, or one that the figure is never on
            either side of.

    Examples:
        >>> limit("batch", "ttft_s", "500 ms")
        FigureLimit(column='ttft_s', value=0.5, at_least=False)
        >>> limit("batch", "user_tok_s", 20)
        FigureLimit(column='user_tok_s', value=20.0, at_least=True)
    """
    figure = _figure(kind, column)
    example = {"s": "500 ms", "$": "2.5 $"}.get(figure.unit, f"8 {figure.unit}".rstrip())
    if not isinstance(asked, str):
        return _possible(FigureLimit(column, float(asked), figure.larger), figure, example)
    found = _COMPARED.fullmatch(asked)
    sign, text = (found[1], found[2].strip()) if found else ("", asked.strip())
    try:
        value = float(text) if is_number(text) else parse(text, figure.unit)
    except QuantityError as error:
        raise InputError(error.message, hint=f"write it like {example!r}") from None
    at_least = sign in (">=", "≥") if sign else figure.larger
    return _possible(FigureLimit(column, value, at_least), figure, example)


def _possible(asked: FigureLimit, figure: NumericColumn, example: str) -> FigureLimit:
    """The limit, unless all or no values could ever keep to it."""
    if math.isfinite(asked.value) and 0 <= asked.value <= figure.most:
        return asked
    ends = "from 0 on" if figure.most == math.inf else f"from 0 to {figure.most:g}"
    example = example if figure.most == math.inf else "0.9"
    raise InputError(
        f"{asked.column} is {ends}, and cannot be limited to {asked.value:g}",
        hint=f"write it like {example!r}",
    )


def is_number(text: str) -> bool:
    """True for a finite number without a unit."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def objective(kind: Kind, text: str) -> SweepObjective:
    """Read an objective: ``min usd_per_mtok``; InputError for another shape or column."""
    way, _, column = text.strip().partition(" ")
    if way not in ("min", "max") or not column.strip():
        raise InputError(
            f"{text!r:.60} is no objective", hint="write 'min usd_per_mtok' or 'max user_tok_s'"
        )
    _figure(kind, column.strip())
    return SweepObjective(column.strip(), way == "max")


def _figure(kind: Kind, column: str) -> NumericColumn:
    known = FIGURES[kind]
    if column in known:
        return known[column]
    lead = did_you_mean(column, known, 0.5)
    plain = ", ".join(_PLAIN[kind])
    raise UnknownNameError(
        f"no figure {column!r:.60} in a {kind} scenario",
        hint=f"{lead}figures: {plain}; those with intervals also with _low and _high",
    )


def missed(limits: Sequence[FigureLimit], points: Any, given: NDArray[np.str_]) -> NDArray[np.str_]:
    """The first limit that each configuration misses, by its column; empty if none.

    One whose figure is not known is told apart by a word behind the column. What rules a
    configuration out before any limit does, as memory, is given.
    """
    out = np.asarray(given, dtype="U48").copy()
    for each in limits:
        met, unknown = judged(each, points)
        out[(out == "") & unknown] = each.column + UNKNOWN
        out[(out == "") & ~met] = each.column
    return out
