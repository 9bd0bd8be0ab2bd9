"""Records on disk: read back as written, refused in one line when they are anything else."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roofline.bench.probe import points
from roofline.bench.recorder import Recorder, begin
from roofline.bench.records import SIDECAR, read_records
from roofline.errors import DocumentError, InputError, MissingEnvironmentError, RooflineError
from roofline.records import replace
from tests.bench.probes import loaded, measurement, probe

ENVIRONMENT = {"machine": "toy", "threads": "1", "date": "2025-01-01"}
ROOT = Path(__file__).parents[2]


def recorded(folder: Path, count: int = 3) -> Recorder:
    recorder = begin(folder, "numpy", ENVIRONMENT, [loaded(probe())])
    for point in list(points(probe()))[:count]:
        recorder.keep(measurement(point, 0.5, 0.25, 1.0, stopped="time"))
    return recorder


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    recorded(tmp_path)
    found = read_records(tmp_path, {"toy": loaded(probe())})
    assert [row.point for row in found.rows] == [p.name for p in list(points(probe()))[:3]]
    row = found.rows[1]
    assert (row.at, row.state, row.regime) == ({"size": 64}, "cold", "small cold")
    assert row.samples == (0.5, 0.25, 1.0)
    assert row.median.value == 0.5
    assert row.work["activation_bytes"] == 512.0
    assert row.stopped == "time"
    assert row.reuse == 1024.0
    assert found.header.environment == ENVIRONMENT
    assert found.notes == ()


def test_a_part_is_a_tidy_table_that_anyone_can_read(tmp_path: Path) -> None:
    recorded(tmp_path, 1)
    frame = pq.read_table(parts(tmp_path)[0]).to_pandas()
    assert frame["seconds"].tolist() == [0.5, 0.25, 1.0]
    assert frame["sample"].tolist() == [0, 1, 2]
    assert set(frame["size"]) == {64}


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    recorded(tmp_path, 2)
    again = begin(tmp_path, "numpy", ENVIRONMENT | {"date": "2026-01-01"}, [loaded(probe())])
    assert again.done == {point.name for point in list(points(probe()))[:2]}
    again.keep(measurement(list(points(probe()))[2]))
    assert len(read_records(tmp_path).rows) == 3


def test_a_run_goes_on_with_probes_that_it_had_not(tmp_path: Path) -> None:
    """A later version of the program has more of them."""
    recorded(tmp_path)
    other = replace(probe(), name="another")
    again = begin(tmp_path, "numpy", ENVIRONMENT, [loaded(other)])
    again.keep(measurement(next(points(other))))
    found = read_records(tmp_path)
    assert [row.probe for row in found.rows] == ["toy", "toy", "toy", "another"]
    assert set(found.header.probes) == {"toy", "another"}


def test_a_better_measurement_takes_the_place_of_the_first(tmp_path: Path) -> None:
    recorder = recorded(tmp_path, 2)
    recorder.keep(measurement(next(points(probe())), 7.0))
    found = read_records(tmp_path)
    assert [row.samples for row in found.rows] == [(7.0,), (0.5, 0.25, 1.0)]


def test_a_part_that_was_removed_is_measured_again_beside_the_others(tmp_path: Path) -> None:
    recorded(tmp_path)
    parts(tmp_path)[0].unlink()
    again = begin(tmp_path, "numpy", ENVIRONMENT, [loaded(probe())])
    missing = [point for point in list(points(probe()))[:3] if point.name not in again.done]
    assert len(missing) == 1
    again.keep(measurement(missing[0]))
    assert len(read_records(tmp_path).rows) == 3


def test_keeping_a_point_neither_lists_the_folder_nor_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = recorded(tmp_path, 2)

    def never(*_: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(Path, "glob", never)
        patched.setattr(os, "fsync", never)
        recorder.keep(measurement(list(points(probe()))[2]))
    assert len(read_records(tmp_path).rows) == 3
    assert [path.name for path in parts(tmp_path)][-1] == "0003-toy.parquet"


def test_a_run_of_another_machine_is_not_gone_on_with(tmp_path: Path) -> None:
    recorded(tmp_path)
    with pytest.raises(InputError, match="threads 1, here it is 2"):
        begin(tmp_path, "numpy", ENVIRONMENT | {"threads": "2"}, [loaded(probe())])


@pytest.mark.parametrize(
    ("what", "first", "patched", "other"),
    [
        ("driver", "580.65.06", "580.95", "590.10"),
        ("system", "Linux 6.18.44 x86_64", "Linux 6.19.1 x86_64", "Linux 7.1 x86_64"),
    ],
)
def test_a_run_is_gone_on_with_after_a_patch_and_not_after_another_branch(
    tmp_path: Path, what: str, first: str, patched: str, other: str
) -> None:
    begin(tmp_path, "cupy", {**ENVIRONMENT, what: first}, [loaded(probe())])
    begin(tmp_path, "cupy", {**ENVIRONMENT, what: patched}, [loaded(probe())])
    with pytest.raises(InputError, match=f"{what} {first}, here it is {other}"):
        begin(tmp_path, "cupy", {**ENVIRONMENT, what: other}, [loaded(probe())])


def test_the_digest_follows_the_rows(tmp_path: Path) -> None:
    recorded(tmp_path / "a")
    recorded(tmp_path / "b")
    recorded(tmp_path / "c", 2)
    a, b, c = (read_records(tmp_path / name).digest for name in "abc")
    assert a == b != c


def test_an_unfinished_file_is_not_a_record(tmp_path: Path) -> None:
    recorded(tmp_path)
    (tmp_path / ".0004-toy.parquet.123.part").write_bytes(b"PAR1 half a fi")
    assert len(read_records(tmp_path).rows) == 3


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"seconds": [1.0]}), path)


def altered(path: Path) -> None:
    """The right shape and metadata, other times."""
    table = pq.read_table(path)
    place = table.schema.get_field_index("seconds")
    pq.write_table(table.set_column(place, "seconds", pa.array([0.1] * len(table))), path)


def relabelled(**changes: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[b"roofline"]) | changes
        pq.write_table(table.replace_schema_metadata({b"roofline": json.dumps(about)}), path)

    return change


def unreadable_label(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"roofline": b"{"}), path)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncated, "it is damaged"),
        (emptied, "it is damaged"),
        (foreign, "it is not a record of this program"),
        (altered, "its rows are not those that were written"),
        (unreadable_label, "what it says of itself cannot be read"),
        (relabelled(run="another"), "it belongs to another run"),
        (relabelled(schema=3), "another format"),
        (relabelled(version=2), "it is of toy version 2"),
        (relabelled(probe="other"), "it is of other version 1"),
    ],
)
def test_a_part_that_is_not_what_was_written_is_refused(
    tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    recorded(tmp_path)
    harm(parts(tmp_path)[1])
    with pytest.raises(DocumentError) as caught:
        read_records(tmp_path)
    assert caught.value.where == str(parts(tmp_path)[1])
    assert said in caught.value.message
    assert "\n" not in caught.value.told
    assert caught.value.hint


def test_any_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    recorded(tmp_path, 1)
    (path,) = parts(tmp_path)
    whole, before = path.read_bytes(), read_records(tmp_path).rows
    noticed = 0
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            assert read_records(tmp_path).rows == before
        except RooflineError:
            noticed += 1
    assert noticed


def test_a_part_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path)
    (tmp_path / "0009-toy.parquet").write_bytes(parts(tmp_path)[0].read_bytes())
    with pytest.raises(DocumentError, match="twice"):
        read_records(tmp_path)


def test_records_of_another_version_of_a_probe_are_refused(tmp_path: Path) -> None:
    recorded(tmp_path)
    with pytest.raises(DocumentError, match="version 1 of its probe, which is now 2"):
        read_records(tmp_path, {"toy": loaded(probe(version=2))})


def test_a_probe_whose_file_changed_is_noted(tmp_path: Path) -> None:
    from roofline.records import replace

    recorded(tmp_path)
    found = read_records(tmp_path, {"toy": replace(loaded(probe()), code="other")})
    assert "has changed" in found.notes[0]


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('"schema_version": 2', '"schema_version": 3', "run.json:2:21"),
        ('"provider": "numpy"', '"provider": 3', "run.json:4:15"),
        ('"run": ', '"ran": ', "run.json:3:3"),
        ("{", "", "run.json:"),
    ],
)
def test_a_damaged_sidecar_is_located(tmp_path: Path, old: str, new: str, where: str) -> None:
    recorded(tmp_path)
    text = (tmp_path / SIDECAR).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / SIDECAR).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        read_records(tmp_path)
    assert where in caught.value.where


def test_a_folder_without_a_run_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="holds no run") as caught:
        read_records(tmp_path)
    assert "roofline calibrate" in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_an_error_of_the_environment(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(MissingEnvironmentError, match="cannot be written"):
        recorded(tmp_path / "run")


KILLED = """
import sys
from pathlib import Path

from roofline.bench import campaign
from roofline.bench.probe import find

folder = Path(sys.argv[1])
names = ["call", "add", "rmsnorm", "rope", "softmax"]
told = lambda index, total, m: print(m.point.name, flush=True)
campaign.measure(campaign.numpy_place(), [find(n) for n in names], 60.0, folder, told)
"""


@pytest.mark.slow
def test_a_killed_run_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "run")],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    told = [process.stdout.readline().strip() for _ in range(12)]
    time.sleep(0.037)  # somewhere in the middle of a point
    process.send_signal(signal.SIGKILL)
    told += [line.strip() for line in process.stdout]
    process.wait()
    process.stdout.close()
    assert process.returncode == -signal.SIGKILL
    found = [row.point for row in read_records(tmp_path / "run").rows]
    assert set(told) - {""} <= set(found)
    assert len(found) <= len(told) + 1


def test_a_packed_run_is_read_as_its_folder(tmp_path: Path) -> None:
    recorded(tmp_path / "run")
    packed = tmp_path / "record.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(tmp_path / "run", ".")
    assert read_records(packed) == read_records(tmp_path / "run")


def test_a_packed_run_writes_nowhere_else(tmp_path: Path) -> None:
    recorded(tmp_path / "run")
    packed = tmp_path / "record.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(tmp_path / "run", ".")
        archive.add(tmp_path / "run" / SIDECAR, "../../escaped.json")
        link = tarfile.TarInfo("link.parquet")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert len(read_records(packed).rows) == 3
    assert not list(tmp_path.parent.rglob("escaped.json"))


@pytest.mark.parametrize("content", [b"", b"not packed", b"\x1f\x8b\x08broken"])
def test_what_is_no_packed_run_is_one_error(tmp_path: Path, content: bytes) -> None:
    packed = tmp_path / "record.tgz"
    packed.write_bytes(content)
    with pytest.raises(DocumentError, match=r"no packed run|holds no run"):
        read_records(packed)


def test_a_packed_run_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "run")
    packed = tmp_path / "record.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(tmp_path / "run", ".")
    monkeypatch.setattr("roofline.bench.records.MOST_BYTES", 1 << 10)
    with pytest.raises(DocumentError, match="unpacks to more than"):
        read_records(packed)
