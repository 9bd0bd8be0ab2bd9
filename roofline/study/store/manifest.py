"""Manifest of a sweep's folder, in JSON Lines: first the sweep, then its finished parts.

A part is written to the disk before its line, so every part that is named is complete. Each line
has a checksum, so a line that a crash cut off is not taken for a record.
"""

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from roofline import files
from roofline.content import label
from roofline.errors import DocumentError

MANIFEST: Final = "manifest.jsonl"
FORMAT: Final = 2
"""Version of the format."""

WHOLE: Final = -1
"""Number of the result's entry; the result replaces the parts, whose rows it has."""
_CHECK: Final = "check"


@dataclass(frozen=True, slots=True)
class SweepHeader:
    """The sweep that a folder holds."""

    scenario: str
    """Digest of the scenario as it was resolved."""
    configurations: int
    chunk_size: int
    """Configurations in all, and in a chunk."""
    versions: Mapping[str, str]
    """Versions of what the bytes of a part depend on, by name."""
    keep: str = ""
    """Rule for the rows that are kept, as asked for; empty where it was not told."""
    inputs: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Digests of what the rows were made from, by name: files, shipped data, the program."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A finished part, or the result."""

    number: int
    """Number of its chunk; `WHOLE` for the result."""
    rows: int
    """Number of rows that were kept."""
    bytes: int
    """Size of the file. [B]"""
    sha256: str
    """Digest of the file."""
    tally: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Counts of the chunk, rows that are not kept included."""


def read(path: Path) -> tuple[SweepHeader, dict[int, ManifestEntry]]:
    """Read a manifest from the disk; see `parse`."""
    return parse(path.read_bytes(), label(path))


def parse(content: bytes, source: str) -> tuple[SweepHeader, dict[int, ManifestEntry]]:
    """Header of a manifest, finished parts and the result by number; damaged lines are left out.

    DocumentError where the first line is not that of a sweep.
    """
    first, *rest = content.splitlines(keepends=True) or [b""]
    about = _record(first) or {}
    header = _header(about) if about.pop("format", None) == FORMAT else None
    if header is None:
        raise DocumentError(
            "this is not the manifest of a sweep of this version of roofline",
            hint="choose another folder, or remove this one",
            where=f"{source}:1",
        )
    entries = (_entry(_record(line) or {}) for line in rest)
    return header, {entry.number: entry for entry in entries if entry is not None}


def _header(record: Mapping[str, Any]) -> SweepHeader | None:
    """Header of a record; None if its fields are not those of a header."""
    match record:
        case {
            "scenario": str(),
            "configurations": int(),
            "chunk_size": int(),
            "versions": dict(),
            "keep": str(),
            "inputs": dict(),
            **rest,
        } if not rest and record["chunk_size"] > 0:
            return SweepHeader(**record)
    return None


def _entry(record: Mapping[str, Any]) -> ManifestEntry | None:
    """Finished part of a record; None if its fields are not those of a part."""
    match record:
        case {
            "number": int(),
            "rows": int(),
            "bytes": int(),
            "sha256": str(),
            "tally": dict(tally),
            **rest,
        } if not rest and all(type(count) is int for count in tally.values()):
            return ManifestEntry(**record)
    return None


def write(path: Path, header: SweepHeader, entries: Iterable[ManifestEntry] = ()) -> None:
    """Replace a manifest in one step: a crash leaves the old one or the new one."""
    with files.whole(path) as file:
        file.write(_line({"format": FORMAT, **asdict(header)}))
        for entry in entries:
            file.write(_line(asdict(entry)))


def append(file: BinaryIO, entry: ManifestEntry) -> None:
    """Append the line of a part that is on the disk; a line that fails is cut off again.

    Args:
        file: The manifest, open to append without a buffer.
        entry: The part.
    """
    end = os.fstat(file.fileno()).st_size
    try:
        left = memoryview(_line(asdict(entry)))
        while left:
            left = left[file.write(left) :]
        files.flush(file)
    except BaseException:
        with suppress(OSError):
            file.truncate(end)
        raise


def _line(record: Mapping[str, Any]) -> bytes:
    checksum = f"{zlib.crc32(_text(record)):08x}"
    return _text({**record, _CHECK: checksum}) + b"\n"


def _text(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def _record(line: bytes) -> dict[str, Any] | None:
    """Record of a line; None if any byte differs from what was written."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.pop(_CHECK, None) is None:
        return None
    return record if _line(record) == line else None
