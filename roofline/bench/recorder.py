"""Measurements on disk, written: one Parquet part per finished point, beside a sidecar.

A part is there whole or not at all, so that a run that is killed loses the point it was at and no
other.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from roofline.bench.capacity import HAD
from roofline.bench.engine import PointTimes
from roofline.bench.probe import LoadedProbe
from roofline.bench.records import (
    FIXED,
    KEY,
    SCHEMA,
    SIDECAR,
    WORK,
    ProbeEntry,
    RunHeader,
    digest_of,
    read_records,
)
from roofline.content import label, there
from roofline.errors import InputError
from roofline.files import output

MOVING: Final = ("date", HAD)
"""Keys of an environment that may differ from one beginning of a run to the next."""
BRANCH: Final = ("driver", "system")
"""Versions of which only the first number counts: a patch of a driver or of a system's kernel does
not end a run."""


@dataclass(slots=True)
class Recorder:
    """Writer of a run's measurements; made by `begin`."""

    folder: Path
    header: RunHeader
    done: set[str] = field(default_factory=set)
    last: int = 0
    """Number of the last part."""
    _parts: dict[str, Path] = field(default_factory=dict)

    def keep(self, measurement: PointTimes) -> None:
        """Write a finished measurement to a file, in place of one of the same point.

        The file outlives this process; to wait until the disk has it would take as long as the
        point itself.
        """
        probe = measurement.point.probe
        path = self._parts.get(measurement.point.name)
        if path is None:
            self.last += 1
            path = self.folder / f"{self.last:04}-{probe.name}.parquet"
            self._parts[measurement.point.name] = path
        about = {
            "run": self.header.run,
            "probe": probe.name,
            "version": probe.version,
            "dropped": dict(measurement.dropped),
            "clocks": dict(measurement.clocks),
            "replayed": measurement.replayed,
        }
        content = _part(about, _columns(measurement))
        with output(path, folders=True, lasting=False, links=False) as file:
            file.write(content)
        self.done.add(measurement.point.name)


def begin(
    folder: Path, provider: str, environment: Mapping[str, str], probes: Iterable[LoadedProbe]
) -> Recorder:
    """Start a run in an empty or new folder, or go on with the one that is there.

    Raises:
        InputError: The run there is of another machine or other libraries.
        DocumentError: What is there cannot be read.
    """
    loaded = {entry.probe.name: entry for entry in probes}
    entries = {
        name: ProbeEntry(version=entry.probe.version, code=entry.code, form=entry.probe.form)
        for name, entry in loaded.items()
    }
    if there(folder / SIDECAR):
        before = read_records(folder, loaded)
        header = before.header
        _same(header.environment, environment, folder)
        if entries.keys() - header.probes.keys():
            header = header.model_copy(update={"probes": {**entries, **header.probes}})
            _describe(folder, header)
        # Not their count: where one was removed, that would be the place of another.
        taken = [path.name.partition("-")[0] for path in folder.glob("*.parquet")]
        last = max((int(text) for text in taken if text.isdigit()), default=0)
        return Recorder(folder, header, {row.point for row in before.rows}, last)
    header = RunHeader(
        schema_version=SCHEMA,
        run=uuid.uuid4().hex,
        provider=provider,
        environment=dict(environment),
        probes=entries,
    )
    _describe(folder, header)
    return Recorder(folder, header)


def _describe(folder: Path, header: RunHeader) -> None:
    """Write the sidecar of a run."""
    text = json.dumps(header.model_dump(), indent=2, ensure_ascii=False)
    with output(folder / SIDECAR, folders=True, links=False) as file:
        file.write(f"{text}\n".encode())


def _same(before: Mapping[str, str], now: Mapping[str, str], folder: Path) -> None:
    for name, value in now.items():
        then = before.get(name, "")
        same = then.split(".")[0] == value.split(".")[0] if name in BRANCH else then == value
        if name not in MOVING and not same:
            raise InputError(
                f"{label(folder)} was measured with {name} {then or 'unknown'}, here it is {value}",
                hint="measure into another folder",
            )


def _columns(measurement: PointTimes) -> dict[str, list[Any]]:
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
        "reuse": measurement.reuse,
        "stopped": measurement.stopped,
        **{name: float(getattr(work, name)) for name in WORK},
        **{name: int(value) for name, value in point.at.items()},
    }
    columns = {name: [value] * count for name, value in same.items()}
    columns |= {"sample": list(range(count)), "seconds": list(measurement.samples)}
    rest = [name for name in columns if name not in FIXED]
    return {name: columns[name] for name in (*FIXED, *rest)}


def _part(about: Mapping[str, Any], columns: Mapping[str, list[Any]]) -> bytes:
    """A Parquet file of some columns that says what it is of."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    said = {"schema": SCHEMA, **about, "digest": digest_of(columns)}
    table = pa.table(dict(columns)).replace_schema_metadata({KEY: json.dumps(said).encode()})
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    content: bytes = buffer.getvalue().to_pybytes()
    return content
