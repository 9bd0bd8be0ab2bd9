"""Results that were saved: the Parquet file of a sweep, or the JSON of a plan."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from roofline.content import label
from roofline.errors import DocumentError, InputError
from roofline.schema.files import read
from roofline.schema.models import Strict
from roofline.schema.validation import validate
from roofline.study.points import result_of
from roofline.table import Column, Derivation, Result, Table

Plain = str | int | float | bool | None


class _Table(Strict):
    units: Mapping[str, str] = Field(default_factory=dict)
    basis: Mapping[str, str] | str = ""
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Plain], ...]


class _Derivation(Strict):
    name: str
    value: float
    unit: str
    formula: str = ""
    substituted: str = ""
    inputs: tuple["_Derivation", ...] = ()
    source: str = ""
    basis: str = ""
    note: str = ""


class _Answer(Strict, extra="allow"):
    tables: Mapping[str, _Table]
    derivations: Mapping[str, _Derivation] = Field(default_factory=dict)
    derivation: _Derivation | None = None


class _Saved(Strict):
    schema_: Literal["roofline/result/1"] = Field(alias="schema")
    version: str
    command: str
    result: _Answer
    notes: tuple[str, ...] = ()


def read_result(path: Path) -> Result:
    """Read a result that was saved.

    Parameters
    ----------
    path
        ``.parquet``: of a sweep, or its folder. ``.json``: of a plan.

    Raises
    ------
    DocumentError
        It cannot be read, or is something else.
    """
    if path.is_dir():
        path = path / "result.parquet"
    if path.suffix.lower() == ".parquet":
        return _sweep(path)
    if path.suffix.lower() == ".json":
        return _plan(path)
    raise InputError(
        f"{label(path)} is neither a sweep nor a plan",
        hint="give the result.parquet of a sweep, or a plan: roofline plan … --format json",
    )


def together(results: Sequence[Result]) -> Result:
    """Sweeps as one, told apart by their names.

    Raises
    ------
    InputError
        One of several is not a sweep.
    """
    if len(results) == 1:
        return results[0]
    if any("points" not in result.tables for result in results):
        raise InputError("several results are not all sweeps", hint="report plans one by one")
    columns = dict.fromkeys(name for result in results for name in result.tables["points"].columns)
    rows: dict[str, list[Any]] = {"scenario": [], **{name: [] for name in columns}}
    for place, result in enumerate(results):
        points, name = result.tables["points"], str(result.metadata.get("name", ""))
        twice = sum(str(other.metadata.get("name", "")) == name for other in results) > 1
        rows["scenario"] += [f"{name} {place + 1}" if twice else name] * len(points)
        for column in columns:
            known = points.columns.get(column)
            rows[column] += known.values if known else [None] * len(points)
    first = results[0]
    return Result(
        first.kind,
        {"points": Table({name: Column(tuple(values)) for name, values in rows.items()})},
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
        metadata={
            **first.metadata,
            "title": " beside ".join(str(result.metadata["title"]) for result in results),
            "summary": tuple(line for result in results for line in result.metadata["summary"]),
        },
    )


def _sweep(path: Path) -> Result:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            found = pq.read_table(file)
    except FileNotFoundError:
        raise DocumentError(f"{label(path)} does not exist", hint="check the spelling") from None
    except OSError as error:
        reason = error.strerror or "it is not a Parquet file"
        raise DocumentError(f"{label(path)} cannot be read: {reason}", hint="check it") from None
    except pa.ArrowException:
        raise DocumentError(
            f"{label(path)} is no whole Parquet file", hint="sweep again into the same folder"
        ) from None
    return result_of(found, label(path))


def _plan(path: Path) -> Result:
    document = read(path)
    saved = validate(_Saved, document)
    answer = saved.result
    return Result(
        saved.command,
        {name: _table(entry) for name, entry in answer.tables.items()},
        {name: _derivation(entry) for name, entry in answer.derivations.items()},
        saved.notes,
        dict(answer.model_extra or {}),
    )


def _table(entry: _Table) -> Table:
    basis = entry.basis
    return Table(
        {
            name: Column(
                tuple(row.get(name) for row in entry.rows),
                entry.units.get(name, ""),
                basis if isinstance(basis, str) else basis.get(name, ""),
            )
            for name in entry.columns
        }
    )


def _derivation(entry: _Derivation) -> Derivation:
    inputs = tuple(_derivation(part) for part in entry.inputs)
    words = {name: getattr(entry, name) for name in _Derivation.model_fields if name != "inputs"}
    return Derivation(**words, inputs=inputs)
