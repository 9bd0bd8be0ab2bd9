"""Tables of a sweep as Parquet files whose bytes depend on the rows alone: parts, and results."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from roofline import files
from roofline.study.store.chunk import Chunk
from roofline.study.store.manifest import ManifestEntry

if TYPE_CHECKING:
    import pyarrow as pa

Work = Callable[[Chunk], "pa.Table"]
"""Prices the configurations of a chunk: the same table whenever and wherever it is called."""

LIBRARIES: Final = ("numpy", "pyarrow", "scipy")
TALLY: Final = b"tally"
"""Key in the metadata of a chunk's table: JSON of counts by name, added up over a sweep."""

Reduction = Callable[["pa.Table"], "pa.Table"]
"""Keeps some rows. What it keeps of all rows, it also keeps of what it kept of their parts."""

KEY: Final = b"roofline"
"""Key in the schema's metadata: JSON that says what the rows are."""

ROWS: Final = 65_536
"""Rows of a row group."""


class StoredPart(Struct, frozen=True):
    """A finished chunk, ready to be written."""

    content: bytes
    """Bytes of the file."""
    rows: int
    sha256: str
    tally: Mapping[str, int] = {}
    """Counts, as in `ManifestEntry`."""

    def entry(self, number: int) -> ManifestEntry:
        """Entry of the manifest for the part of a chunk."""
        return ManifestEntry(number, self.rows, len(self.content), self.sha256, self.tally)


class EncodingPricing(Struct, frozen=True):
    """Work whose tables become parts where they are made: compressing them is work too."""

    work: Work

    def __call__(self, chunk: Chunk) -> StoredPart:
        """Price and encode a chunk."""
        table = self.work(chunk)
        content, rows = encode(table)
        return StoredPart(content, rows, hashlib.sha256(content).hexdigest(), tallied(table))


def tallied(table: "pa.Table") -> dict[str, int]:
    """Counts of a table's chunk, rows that it does not keep included."""
    counts: dict[str, int] = json.loads((table.schema.metadata or {}).get(TALLY, b"{}"))
    return counts


def encode(table: "pa.Table") -> tuple[bytes, int]:
    """Parquet of a table, and its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(None), buffer, **writing(table.schema))
    return buffer.getvalue().to_pybytes(), len(table)


def writing(schema: "pa.Schema") -> dict[str, Any]:
    """Options for writing Parquet: what a library takes by default may change.

    Figures seldom come twice: a dictionary of them takes four times as long and more space.
    """
    import pyarrow as pa

    return {
        "version": "2.6",
        "data_page_version": "1.0",
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": [field.name for field in schema if not pa.types.is_floating(field.type)],
    }


def versions() -> dict[str, str]:
    """Versions of the libraries that the bytes of a part depend on, by name."""
    from roofline.version import __version__

    return {"roofline": __version__} | {name: version(name) for name in LIBRARIES}


def intact(path: Path, entry: ManifestEntry) -> bool:
    """True if a part on the disk is the one that was finished."""
    try:
        if path.stat().st_size != entry.bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256
    except OSError:
        return False


def merge(
    tables: Iterable["pa.Table"],
    path: Path,
    metadata: Mapping[str, Any],
    reduction: Reduction | None = None,
) -> int:
    """Write tables with the same columns as one file, whole or not at all; number of its rows.

    Args:
        tables: At least one; read one at a time.
        path: File; one that is there is replaced.
        metadata: Plain values, kept as JSON under `KEY` of the schema.
        reduction: Reduction of the rows of all tables; None keeps them as they come.
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
    """Some columns of a result, or all; columns of names have one dictionary for all their rows."""
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

    for place, each in enumerate(table.schema):
        if pa.types.is_dictionary(each.type):
            values = table.column(place).cast(each.type.value_type).combine_chunks()
            column = values.dictionary_encode()
            table = table.set_column(place, pa.field(each.name, column.type), column)
    return table.combine_chunks()
