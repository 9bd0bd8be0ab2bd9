"""One Parquet file of all parts: its bytes depend on the rows alone, its memory on few of them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofline import files
from roofline.study.store.parts import writing

if TYPE_CHECKING:
    import pyarrow as pa

Reduction = Callable[["pa.Table"], "pa.Table"]
"""Keeps some rows. What it keeps of all rows, it also keeps of what it kept of their parts."""

KEY: Final = b"roofline"
"""Of the schema's metadata: JSON that says what the rows are."""

ROWS: Final = 65_536
"""Of a row group."""


def merge(
    tables: Iterable["pa.Table"],
    path: Path,
    metadata: Mapping[str, Any],
    reduction: Reduction | None = None,
) -> int:
    """Write tables with the same columns as one file, whole or not at all.

    Args:
        tables: At least one; read one at a time.
        path: Of the file; one that is there is replaced.
        metadata: Plain values, kept as JSON under `KEY` of the schema.
        reduction: Of the rows of all tables; none keeps them as they come.

    Returns:
        Rows of the file.
    """
    import pyarrow.parquet as pq

    kept = tables if reduction is None else [reduced(tables, reduction)]
    groups = _groups(kept, ROWS)
    first = next(groups)
    about = described(metadata)
    schema = first.schema.with_metadata(about)
    rows = 0
    with files.whole(path) as file, pq.ParquetWriter(file, schema, **writing(schema)) as writer:
        for group in chain([first], groups):
            writer.write_table(group.replace_schema_metadata(about), row_group_size=ROWS)
            rows += len(group)
    return rows


def read(path: Path | None, columns: Sequence[str] | None = None) -> "pa.Table":
    """Table of a result, of which each column of names has one dictionary for all its rows.

    Args:
        path: As `merge` has written it.
        columns: Those that are read; None for all.
    """
    import pyarrow.parquet as pq

    assert path is not None
    with pq.ParquetFile(path) as file:  # read_table would import pandas
        return file.read(columns=columns).unify_dictionaries()


def described(metadata: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Metadata of a schema that say what the rows are."""
    return {KEY: json.dumps(dict(metadata), sort_keys=True).encode()}


def reduced(tables: Iterable["pa.Table"], reduction: Reduction) -> "pa.Table":
    """Reduce tables as if they were one, with few rows more than are kept in memory."""
    import pyarrow as pa

    waiting: list[Any] = []
    rows, limit = 0, ROWS
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= limit:
            waiting = [reduction(pa.concat_tables(waiting))]
            rows = len(waiting[0])
            limit = max(ROWS, 2 * rows)  # so that rows are looked at a few times, not once a part
    return reduction(pa.concat_tables(waiting))


def _groups(tables: Iterable["pa.Table"], size: int) -> Iterator["pa.Table"]:
    """The same rows in tables of one size, the last one with what is left; at least one table."""
    import pyarrow as pa

    waiting: list[Any] = []
    rows, full = 0, 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= size:
            together = pa.concat_tables(waiting)
            full = rows - rows % size
            for start in range(0, full, size):
                yield plain(together.slice(start, size))
            waiting, rows = [together.slice(full)], rows - full
    if rows or not full:
        yield plain(pa.concat_tables(waiting))


def plain(table: "pa.Table") -> "pa.Table":
    """The same rows, with names listed in the order in which they come."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            values = table.column(place).cast(field.type.value_type).combine_chunks()
            column = values.dictionary_encode()
            table = table.set_column(place, pa.field(field.name, column.type), column)
    return table.combine_chunks()
