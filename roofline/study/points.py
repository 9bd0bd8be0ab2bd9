"""Rows of a sweep as a result, with what was asked in words: what pages and notebooks show."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from roofline.errors import DocumentError
from roofline.study.grounds import notes
from roofline.study.store.merging import KEY
from roofline.study.sweep.keep import Objective
from roofline.study.wording import counted, figure, quantity
from roofline.table import Column, Result, Table

if TYPE_CHECKING:
    import pyarrow as pa

TRUTHS: Final = frozenset({"fits", "feasible"})
WORDS: Final = frozenset(
    {
        *("model", "gpu", "node", "layout", "weights", "kv", "engine", "technique", "patch"),
        *("workload", "policy", "decode_bound", "prefill_bound", "basis", "limit"),
    }
)
"""Columns of rows that are no numbers."""
SAID: Final = ("counts", "engine_costs")
"""What the file says of itself that is here in sentences."""


def result_of(found: "pa.Table", source: str = "the table", rows: int | None = None) -> Result:
    """Rows of a sweep as what a page is made of.

    Args:
        found: As a sweep gives them, with what it says of itself in the metadata of the schema.
        source: Name of where it was read.
        rows: How many there are, where these are only some of them; None for all. [1]

    Raises:
        DocumentError: It is something else.
    """
    about = _about(found.schema, source)
    points = {
        name: Column(tuple(found.column(name).to_pylist()), about.get("units", {}).get(name, ""))
        for name in found.column_names
    }
    return Result(
        "sweep",
        {"points": Table(points)},
        notes=notes(found, about),
        metadata={
            **{key: value for key, value in about.items() if key not in SAID},
            **({} if rows is None else {"rows": rows}),
            "title": str(about.get("title") or about.get("name") or "sweep"),
            "summary": _summary(about, len(found) if rows is None else rows),
            "objectives": _objectives(about.get("objectives", ())),
            "limits": _limits(about.get("constraints", {})),
        },
    )


def objectives_of(schema: "pa.Schema", source: str) -> tuple[Objective, ...]:
    """What a sweep wanted, as its file says.

    Raises:
        DocumentError: It is the file of something else.
    """
    said = _objectives(_about(schema, source).get("objectives", ()))
    return tuple(Objective(name, most) for name, most in said if name in schema.names)


def _about(schema: "pa.Schema", source: str) -> dict[str, Any]:
    """What the file says of itself."""
    said = (schema.metadata or {}).get(KEY)
    if said is None or not {"index", "feasible"} <= set(schema.names):
        raise DocumentError(
            f"{source} is not the result of a sweep", hint="give the result.parquet of one"
        )
    _check_kinds(schema, source)
    about: dict[str, Any] = json.loads(said)
    return about


def _check_kinds(schema: "pa.Schema", source: str) -> None:
    """Refuse columns that hold something else than those of a sweep do."""
    import pyarrow.types as kinds

    for field in schema:
        kind = field.type.value_type if kinds.is_dictionary(field.type) else field.type
        if field.name in TRUTHS:
            wanted, right = "true or false", kinds.is_boolean(kind)
        elif field.name in WORDS:
            wanted, right = "text", kinds.is_string(kind)
        else:
            wanted, right = "numbers", kinds.is_integer(kind) or kinds.is_floating(kind)
        if not right and not kinds.is_null(kind):  # which a table without rows has
            raise DocumentError(
                f"{source} is not as it was saved: the column {field.name!r:.60} holds {kind}",
                hint=f"it has {wanted} in the result of a sweep; sweep again",
            )


def _summary(about: Mapping[str, Any], rows: int) -> tuple[str, ...]:
    kept = {
        "pareto": "that nothing else beats in all objectives",
        "all": "all of them",
        "feasible": "that keep all limits",
    }
    wanted, keep = about.get("objectives", ()), str(about.get("keep", ""))
    limits, units = about.get("constraints", {}), about.get("units", {})
    out = [str(about["about"]).strip()] if about.get("about") else []
    if about.get("counts"):
        out.append(" ".join(counted(about["counts"], limits, units)))
    if rows:
        which = "1 row is kept" if rows == 1 else f"{rows:,} rows are kept"
        out.append(f"{which}: {kept.get(keep, 'the best')}.")
    if wanted:
        out.append(f"Wanted: {', then '.join(map(_aim, wanted))}.")
    if limits:
        named = (
            f"{figure(name)} {_bound(text, units.get(name, ''))}" for name, text in limits.items()
        )
        out.append(f"Limits: {'; '.join(named)}.")
    return tuple(out)


def _aim(said: str) -> str:
    """``"min usd_per_mtok"`` in words."""
    side, _, column = said.partition(" ")
    return f"{'most' if side == 'max' else 'least'} {figure(column)}"


def _bound(said: str, unit: str) -> str:
    """``"<= 0.06"`` with its unit."""
    side, _, value = said.partition(" ")
    return f"{'at most' if side == '<=' else 'at least'} {quantity(float(value), unit)}"


def _objectives(said: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """Columns and whether more is better, from ``"min usd_per_mtok"``."""
    pairs = [str(each).split() for each in said]
    return tuple((pair[1], pair[0] == "max") for pair in pairs if len(pair) == 2)


def _limits(said: Mapping[str, str]) -> dict[str, float]:
    """Upper limits by column, from ``"<= 0.5"``."""
    pairs = {name: str(text).split() for name, text in said.items()}
    return {name: float(pair[1]) for name, pair in pairs.items() if pair[0] == "<="}
