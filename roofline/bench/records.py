"""Measurements on disk, read: Parquet parts, and a sidecar that says on what they were made.

A folder holds one run on one machine. Whatever is read was written by `roofline.bench.recorder`, by
the same version of the same probe, and is unchanged since; anything else is refused.
"""

import hashlib
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct
from pydantic import Field, field_validator

from roofline.bench.probe import LoadedProbe
from roofline.bench.stopping import SampledTimes
from roofline.content import label, there
from roofline.errors import DocumentError
from roofline.schema import Strict, read, validate

_N = TypeVar("_N", int, float)

SIDECAR: Final = "run.json"
SCHEMA: Final = 2
KEY: Final = b"roofline"
"""Key of a part's metadata: its run, probe and version, and a digest of its rows."""
WORK: Final = ("flops", "weight_bytes", "activation_bytes", "kv_bytes")
FIXED: Final = (
    *("point", "probe", "kind", "state", "regime", "arithmetic"),
    *("sample", "seconds", "runs", "sets", "reuse", "stopped"),
    *WORK,
)
"""Columns that every part has; the others are the axes of its probe."""
PACKED: Final = ".tgz"
"""End of the name of a run that is packed."""
MOST_BYTES: Final = 256 << 20
"""Largest run that is unpacked. [B]"""
AGAIN: Final = "pack it again: tar czf record.tgz -C FOLDER ."
NAME: Final = r"^[a-z0-9][a-z0-9.-]{0,47}$"
"""Providers and machines, of which names of files are made."""


class ProbeEntry(Strict):
    """Version of a probe that was run, a digest of its file, and the form it names for a GPU."""

    version: int
    code: str
    form: str = ""


class RunHeader(Strict):
    """Sidecar of a run."""

    schema_version: Literal[2]
    """Layout of the file."""
    run: str = Field(min_length=8)
    """Identifies it in its parts."""
    provider: str = Field(pattern=NAME)
    """Provider of the kernels that were measured."""
    environment: dict[str, str]
    """Facts that the times depend on besides the probes."""
    probes: dict[str, ProbeEntry]
    """Versions of the probes, by name."""

    @field_validator("environment")
    @classmethod
    def _is_told(cls, about: dict[str, str]) -> dict[str, str]:
        """A calibration is called after its machine, and has a date."""
        if not re.fullmatch(NAME, about.get("machine", "")) or not about.get("date"):
            raise ValueError("it names no machine, or no date")
        return about


@dataclass(frozen=True, slots=True)
class Record(SampledTimes):
    """Measurements of one point, read back."""

    point: str
    probe: str
    kind: str
    state: str
    regime: str
    arithmetic: str
    """Names of the point, and of what its probe declares."""
    at: Mapping[str, int]
    """Values of its axes."""
    work: Mapping[str, float]
    """Work of a run by the names in `WORK`. [FLOP], [B]"""


class Records(Struct, frozen=True):
    """A run, read back."""

    header: RunHeader
    """Probes that were run, and where."""
    rows: tuple[Record, ...]
    """Points in the order in which they were measured."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader should know."""

    @property
    def digest(self) -> str:
        """Fingerprint of all rows."""
        lines = [f"{row.point} {row.samples!r}" for row in self.rows]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def of(self, probe: str) -> list[Record]:
        """Rows of one probe."""
        return [row for row in self.rows if row.probe == probe]


def read_records(folder: Path, probes: Mapping[str, LoadedProbe] | None = None) -> Records:
    """A run that was recorded in a folder; none of another version of the probes that are given.

    Args:
        folder: Where it is, or the folder packed with tar and gzip, as it is sent.
        probes: Probes as they are now, by name.

    Raises:
        DocumentError: A part or the sidecar is damaged, foreign or of another version.
    """
    if folder.suffix == PACKED and folder.is_file():
        with TemporaryDirectory() as place:
            _unpack(folder, Path(place))
            return read_records(Path(place), probes)
    if not there(folder / SIDECAR):
        raise DocumentError(
            f"{label(folder)} holds no run: there is no {SIDECAR}",
            hint="name a folder that 'roofline bench run' or 'roofline calibrate' wrote",
        )
    header = validate(RunHeader, read(folder / SIDECAR))
    notes = _versions(header, probes or {}, folder)
    parts = [_record(path, header) for path in sorted(folder.glob("*.parquet"))]
    rows = [row for row in parts if all(0.0 < value < float("inf") for value in row.samples)]
    if wrong := len(parts) - len(rows):
        notes.append(f"{wrong} points have times that are none, not above zero: they do not count.")
    if len({row.point for row in rows}) < len(rows):
        raise _refused(folder, "a point is there twice", "remove the part that was added")
    return Records(header, tuple(rows), tuple(notes))


def _unpack(packed: Path, place: Path) -> None:
    """Write the files of a packed run, and nothing else that is in it, into a folder."""
    room = MOST_BYTES
    try:
        with tarfile.open(packed, "r:gz") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                if not member.isfile() or not (name == SIDECAR or name.endswith(".parquet")):
                    continue
                room -= member.size
                if room < 0:
                    raise _refused(packed, f"it unpacks to more than {MOST_BYTES >> 20} MiB", AGAIN)
                file = archive.extractfile(member)
                (place / name).write_bytes(file.read() if file else b"")
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise _refused(packed, f"it is no packed run: {error}", AGAIN) from None


def alike(rows: Sequence[Record]) -> list[Record]:
    """Rows that were timed as most are, as graphs or launch by launch.

    What a capture refused was timed as the host launches it, which no graph of kernels takes.
    """
    as_graphs = 2 * sum(row.replayed for row in rows) >= len(rows)
    return [row for row in rows if row.replayed == as_graphs]


def _versions(header: RunHeader, probes: Mapping[str, LoadedProbe], folder: Path) -> list[str]:
    notes = []
    for name, entry in header.probes.items():
        now = probes.get(name)
        if now is not None and now.probe.version != entry.version:
            raise _refused(
                folder / SIDECAR,
                f"{name} was measured by version {entry.version} of its probe, "
                f"which is now {now.probe.version}",
                "measure again: roofline calibrate",
            )
        if now is not None and now.code != entry.code:
            notes.append(f"The file of the probe {name} has changed since, its version has not.")
    return notes


def _record(path: Path, header: RunHeader) -> Record:
    """One part, held against everything it says of itself."""
    about, columns = _read_part(path)
    if about.get("schema") != SCHEMA:
        raise _refused(path, "it is of another format of records", "measure again")
    if about.get("run") != header.run:
        raise _refused(path, "it belongs to another run", "move it back to its own folder")
    probe = str(about.get("probe"))
    entry = header.probes.get(probe)
    if entry is None or entry.version != about.get("version"):
        version = about.get("version")
        raise _refused(
            path, f"it is of {probe} version {version}, which is not in {SIDECAR}", "measure again"
        )
    if about.get("digest") != digest_of(columns) or any(name not in columns for name in FIXED):
        raise _damaged(path, "its rows are not those that were written")
    samples = tuple(float(value) for value in columns["seconds"])
    if not samples:
        raise _damaged(path, "it has no times")
    first = {name: values[0] for name, values in columns.items()}
    text = {name: str(first[name]) for name in FIXED[:6]}
    return Record(
        **text,
        at={name: int(value) for name, value in first.items() if name not in FIXED},
        work={name: float(first[name]) for name in WORK},
        reuse=float(first["reuse"]),
        samples=samples,
        stopped=str(first["stopped"]),
        dropped=_numbers(about, "dropped", int),
        clocks=_numbers(about, "clocks", float),
        replayed=bool(about.get("replayed", False)),
    )


def _numbers(about: Mapping[str, Any], name: str, kind: Callable[[Any], _N]) -> dict[str, _N]:
    """Numbers of a part besides its rows; older ones have none."""
    found = about.get(name)
    return {str(key): kind(value) for key, value in found.items()} if found else {}


def _read_part(path: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Metadata of a part, and its columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # From memory in one thread, a third less of the time of parts as small as these; read_table
        # would import pandas.
        with pq.ParquetFile(pa.BufferReader(path.read_bytes())) as file:
            table = file.read(use_threads=False)
        about = (table.schema.metadata or {}).get(KEY)
        columns: dict[str, list[Any]] = table.to_pydict()
    except (pa.ArrowException, OSError, ValueError, UnicodeError) as error:
        told = " ".join(str(error).split()).rpartition(f"{path}': ")[2]
        raise _damaged(path, told[:100].strip()) from None
    if about is None:
        raise _refused(path, "it is not a record of this program", "remove it from the folder")
    try:
        said = json.loads(about)
        assert isinstance(said, dict)
    except (AssertionError, RecursionError, ValueError):
        raise _damaged(path, "what it says of itself cannot be read") from None
    return said, columns


def digest_of(columns: Mapping[str, list[Any]]) -> str:
    """Fingerprint of the rows of a part."""
    text = json.dumps({name: columns[name] for name in sorted(columns)}, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _damaged(path: Path, reason: str) -> DocumentError:
    return _refused(path, f"it is damaged: {reason}", "remove it, and measure its point again")


def _refused(path: Path, message: str, hint: str) -> DocumentError:
    return DocumentError(message, hint=hint, where=label(path))
