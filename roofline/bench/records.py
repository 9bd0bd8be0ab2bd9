"""Measurements on disk: one Parquet part per finished point, and a sidecar that says on what.

A folder holds one run on one machine. A part is there whole or not at all, so that a run that is
killed loses the point it was at and no other. Whatever is read was written by this module, by the
same version of the same probe, and is unchanged since; anything else is refused.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from roofline.bench import atomic
from roofline.bench.engine import Measurement
from roofline.bench.probe import Loaded
from roofline.bench.stopping import Median, median
from roofline.content import label
from roofline.errors import DocumentError, InputError
from roofline.schema import Strict, read, validate

SIDECAR: Final = "run.json"
SCHEMA: Final = 1
KEY: Final = b"roofline"
"""Of the metadata of a part: which run, probe and version it is of, and a digest of its rows."""
WORK: Final = ("flops", "weight_bytes", "activation_bytes", "kv_bytes")
FIXED: Final = (
    *("point", "probe", "kind", "state", "regime", "arithmetic"),
    *("sample", "seconds", "runs", "sets", "stopped"),
    *WORK,
)
"""Columns that every part has; the others are the axes of its probe."""


class ProbeEntry(Strict):
    """Which version of a probe was run, and a digest of its file."""

    version: int
    code: str


class Header(Strict):
    """Sidecar of a run.

    Attributes
    ----------
    run
        Identifies it in its parts.
    provider
        Whose kernels were measured.
    environment
        What the times depend on besides the probes.
    probes
        By name.
    """

    schema_version: Literal[1]
    run: str = Field(min_length=8)
    provider: str = Field(min_length=1)
    environment: dict[str, str]
    probes: dict[str, ProbeEntry]


@dataclass(frozen=True, slots=True)
class Record:
    """Measurements of one point.

    Attributes
    ----------
    point, probe, kind, state, regime, arithmetic
        As of the probe.
    at
        Values of its axes.
    work
        By the names in `WORK`. [FLOP], [B]
    samples
        Each the mean time of some runs. [s]
    stopped
        Why there are no more.
    """

    point: str
    probe: str
    kind: str
    state: str
    regime: str
    arithmetic: str
    at: Mapping[str, int]
    work: Mapping[str, float]
    samples: tuple[float, ...]
    stopped: str

    @property
    def median(self) -> Median:
        """Middle of the samples. [s]"""
        return median(self.samples)


@dataclass(frozen=True, slots=True)
class Records:
    """A run, read back.

    Attributes
    ----------
    header
        What was run, and where.
    rows
        In the order in which they were measured.
    notes
        What a reader should know.
    """

    header: Header
    rows: tuple[Record, ...]
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Fingerprint of all rows."""
        lines = [f"{row.point} {row.samples!r}" for row in self.rows]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def of(self, probe: str) -> list[Record]:
        """Those of one probe."""
        return [row for row in self.rows if row.probe == probe]


@dataclass(slots=True)
class Recorder:
    """Where a run puts its measurements; made by `begin`."""

    folder: Path
    header: Header
    done: set[str] = field(default_factory=set)

    def keep(self, measurement: Measurement) -> None:
        """Write a finished measurement to the disk."""
        probe = measurement.point.probe
        number = len(list(self.folder.glob("*.parquet"))) + 1
        path = self.folder / f"{number:04}-{probe.name}.parquet"
        content = _part(self.header.run, probe.name, probe.version, _columns(measurement))
        atomic.write(path, content)
        self.done.add(measurement.point.name)


def begin(
    folder: Path, provider: str, environment: Mapping[str, str], probes: Iterable[Loaded]
) -> Recorder:
    """Start a run in an empty or new folder, or go on with the one that is there.

    Parameters
    ----------
    folder
        Of this run alone.
    provider, environment, probes
        For the sidecar.

    Raises
    ------
    InputError
        The run there is of another machine or other libraries.
    DocumentError
        What is there cannot be read.
    """
    loaded = {entry.probe.name: entry for entry in probes}
    if (folder / SIDECAR).is_file():
        before = read_records(folder, loaded)
        _same(before.header.environment, environment, folder)
        return Recorder(folder, before.header, {row.point for row in before.rows})
    header = Header(
        schema_version=SCHEMA,
        run=uuid.uuid4().hex,
        provider=provider,
        environment=dict(environment),
        probes={
            name: ProbeEntry(version=entry.probe.version, code=entry.code)
            for name, entry in loaded.items()
        },
    )
    text = json.dumps(header.model_dump(), indent=2, ensure_ascii=False)
    atomic.write(folder / SIDECAR, f"{text}\n".encode())
    return Recorder(folder, header)


def read_records(folder: Path, probes: Mapping[str, Loaded] | None = None) -> Records:
    """Read a run.

    Parameters
    ----------
    folder
        That a run was recorded in.
    probes
        By name; records of other versions of them are refused. None to take any.

    Raises
    ------
    DocumentError
        A part or the sidecar is damaged, foreign or of another version.
    """
    if not (folder / SIDECAR).is_file():
        raise DocumentError(
            f"{label(folder)} holds no run: there is no {SIDECAR}",
            hint="name a folder that 'roofline bench run' or 'roofline calibrate' wrote",
        )
    header = validate(Header, read(folder / SIDECAR))
    notes = _versions(header, probes or {}, folder)
    rows = [_record(path, header) for path in sorted(folder.glob("*.parquet"))]
    if len({row.point for row in rows}) < len(rows):
        raise _refused(folder, "a point is there twice", "remove the part that was added")
    return Records(header, tuple(rows), tuple(notes))


def _same(before: Mapping[str, str], now: Mapping[str, str], folder: Path) -> None:
    for name, value in now.items():
        if name != "date" and before.get(name) != value:
            raise InputError(
                f"{label(folder)} was measured with {name} {before.get(name, 'unknown')}, "
                f"here it is {value}",
                hint="measure into another folder",
            )


def _versions(header: Header, probes: Mapping[str, Loaded], folder: Path) -> list[str]:
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


def _columns(measurement: Measurement) -> dict[str, list[Any]]:
    """One row per sample."""
    point = measurement.point
    probe, work = point.probe, point.probe.work(point.at)
    count = len(measurement.samples)
    same = {
        "point": point.name,
        "probe": probe.name,
        "kind": probe.kind,
        "state": point.state,
        "regime": point.regime,
        "arithmetic": probe.arithmetic,
        "runs": measurement.runs,
        "sets": measurement.sets,
        "stopped": measurement.stopped,
        **{name: float(getattr(work, name)) for name in WORK},
        **{name: int(value) for name, value in point.at.items()},
    }
    columns = {name: [value] * count for name, value in same.items()}
    columns |= {"sample": list(range(count)), "seconds": list(measurement.samples)}
    rest = [name for name in columns if name not in FIXED]
    return {name: columns[name] for name in (*FIXED, *rest)}


def _part(run: str, probe: str, version: int, columns: Mapping[str, list[Any]]) -> bytes:
    """A Parquet file of some columns that says what it is of."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {
        "schema": SCHEMA,
        "run": run,
        "probe": probe,
        "version": version,
        "digest": _digest(columns),
    }
    table = pa.table(dict(columns)).replace_schema_metadata({KEY: json.dumps(about).encode()})
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def _record(path: Path, header: Header) -> Record:
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
    if about.get("digest") != _digest(columns) or any(name not in columns for name in FIXED):
        raise _damaged(path, "its rows are not those that were written")
    samples = tuple(float(value) for value in columns["seconds"])
    if not samples or not all(0.0 < value < float("inf") for value in samples):
        raise _damaged(path, "a time is not above zero")
    first = {name: values[0] for name, values in columns.items()}
    text = {name: str(first[name]) for name in FIXED[:6]}
    return Record(
        **text,
        at={name: int(value) for name, value in first.items() if name not in FIXED},
        work={name: float(first[name]) for name in WORK},
        samples=samples,
        stopped=str(first["stopped"]),
    )


def _read_part(path: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What a part says of itself, and its columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
        about = (table.schema.metadata or {}).get(KEY)
        columns: dict[str, list[Any]] = table.to_pydict()
    except (pa.ArrowException, OSError, ValueError, UnicodeError) as error:
        raise _damaged(path, " ".join(str(error).split())[:100]) from None
    if about is None:
        raise _refused(path, "it is not a record of this program", "remove it from the folder")
    try:
        said = json.loads(about)
        assert isinstance(said, dict)
    except (ValueError, AssertionError):
        raise _damaged(path, "what it says of itself cannot be read") from None
    return said, columns


def _digest(columns: Mapping[str, list[Any]]) -> str:
    text = json.dumps({name: columns[name] for name in sorted(columns)}, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _damaged(path: Path, reason: str) -> DocumentError:
    return _refused(path, f"it is damaged: {reason}", "remove it, and measure its point again")


def _refused(path: Path, message: str, hint: str) -> DocumentError:
    return DocumentError(message, hint=hint, where=label(path))
