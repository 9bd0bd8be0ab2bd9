"""Results that were saved: the Parquet file of a sweep, or the JSON of a plan."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from roofline.content import label, there
from roofline.errors import DocumentError, InputError
from roofline.schema.files import read
from roofline.schema.validation import Strict, validate
from roofline.study.points import objectives_of, result_of
from roofline.study.store import parts
from roofline.study.sweep_result import SHOWN, order, taken
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


class _SavedAnswer(Strict, extra="allow"):
    tables: Mapping[str, _Table]
    derivations: Mapping[str, _Derivation] = Field(default_factory=dict)
    derivation: _Derivation | None = None


class _Saved(Strict):
    schema_: Literal["roofline/result/1"] = Field(alias="schema")
    version: str
    command: str
    result: _SavedAnswer
    notes: tuple[str, ...] = ()


@contextmanager
def as_saved(*paths: Path) -> Iterator[None]:
    """Refuse, of results that are read and shown in the block, what nothing saves like this.

    Raises:
        DocumentError: A value in one is missing, or is not what stands there.
    """
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as problem:
        raise DocumentError(
            f"{' or '.join(map(label, paths))} is not as it was saved: {problem!r:.120}",
            hint="save the result again",
        ) from problem


def read_result(path: Path) -> Result:
    """Read a result that was saved.

    Args:
        path: ``.parquet``: of a sweep, or its folder. ``.json``: of a plan.

    Raises:
        DocumentError: It cannot be read, or is something else.
    """
    with as_saved(path):
        if there(path, "folder"):
            path = path / "result.parquet"
        if path.suffix.lower() == ".parquet":
            return _sweep(path)
        if path.suffix.lower() == ".json":
            return _plan(path)
    raise InputError(
        f"{label(path)} is neither a sweep nor a plan",
        hint="give the result.parquet of a sweep, or a plan: roofline plan … --format json",
    )


def merge_results(results: Sequence[Result]) -> Result:
    """Sweeps as one, told apart by their names; InputError where one of several is not a sweep."""
    if len(results) == 1:
        return results[0]
    if any("points" not in result.tables for result in results):
        raise InputError("several results are not all sweeps", hint="report plans one by one")
    columns = dict.fromkeys(name for result in results for name in result.tables["points"].columns)
    rows: dict[str, list[Any]] = {"scenario": [], **{name: [] for name in columns}}
    names = _names(results)
    for name, result in zip(names, results, strict=True):
        points = result.tables["points"]
        rows["scenario"] += [name] * len(points)
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
            "title": " beside ".join(names),
            "summary": tuple(
                f"{name}: {line}"
                for name, result in zip(names, results, strict=True)
                for line in (result.metadata["title"], *result.metadata["summary"])
            ),
            "objectives_of": {
                name: result.metadata["objectives"]
                for name, result in zip(names, results, strict=True)
            },
            "scenario": ", ".join(str(result.metadata.get("scenario", "")) for result in results),
            "limits": {},
        },
    )


def _names(results: Sequence[Result]) -> list[str]:
    """Names of sweeps, numbered where two have the same."""
    said = [str(result.metadata.get("name", "")) for result in results]
    return [
        f"{name} {place + 1}" if said.count(name) > 1 else name for place, name in enumerate(said)
    ]


def _sweep(path: Path) -> Result:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file, pq.ParquetFile(file) as there:
            number, schema = there.metadata.num_rows, there.schema_arrow
        if number <= SHOWN:
            return result_of(parts.read(path), label(path))
        # So many do not go into memory as Python values, nor onto a page.
        places = order(None, path, objectives_of(schema, label(path)), SHOWN)
        return result_of(taken(None, path, places), label(path), number)
    except FileNotFoundError:
        raise DocumentError(f"{label(path)} does not exist", hint="check the spelling") from None
    except OSError as error:
        reason = error.strerror or "it is not a Parquet file"
        raise DocumentError(f"{label(path)} cannot be read: {reason}", hint="check it") from None
    except pa.ArrowException:
        raise DocumentError(
            f"{label(path)} is no whole Parquet file", hint="sweep again into the same folder"
        ) from None


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
