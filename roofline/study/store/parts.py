"""Parts: tables as Parquet files whose bytes depend on the rows alone, and their digests."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofline.study.store.chunk import Chunk
from roofline.study.store.manifest import Entry

if TYPE_CHECKING:
    import pyarrow as pa

Work = Callable[[Chunk], "pa.Table"]
"""Prices the configurations of a chunk: the same table whenever and wherever it is called."""

LIBRARIES: Final = ("numpy", "pyarrow", "scipy")
TALLY: Final = b"tally"
"""Of the metadata of a chunk's table: JSON of counts by name, which are added up over a sweep."""


@dataclass(frozen=True, slots=True)
class Part:
    """A finished chunk, ready to be written."""

    content: bytes
    """Of the file."""
    rows: int
    sha256: str
    tally: Mapping[str, int] = field(default_factory=dict)
    """As in `Entry`."""

    def entry(self, number: int) -> Entry:
        """Entry of the manifest for the part of a chunk."""
        return Entry(number, self.rows, len(self.content), self.sha256, self.tally)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Work whose tables become parts where they are made: compressing them is work too."""

    work: Work

    def __call__(self, chunk: Chunk) -> Part:
        """Price and encode a chunk."""
        table = self.work(chunk)
        content, rows = encode(table)
        return Part(content, rows, hashlib.sha256(content).hexdigest(), tallied(table))


def tallied(table: "pa.Table") -> dict[str, int]:
    """What a table counts of its chunk, rows that it does not keep included."""
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
    """How Parquet is written: what a library takes by default may change.

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
    from roofline import __version__

    return {"roofline": __version__} | {name: version(name) for name in LIBRARIES}


def intact(path: Path, entry: Entry) -> bool:
    """Whether a part on the disk is the one that was finished."""
    try:
        if path.stat().st_size != entry.bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256
    except OSError:
        return False
