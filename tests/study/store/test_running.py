"""A sweep in a folder: the same result however it gets there, and no other sweep's."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from roofline import __version__
from roofline.errors import DocumentError, InputError, MissingEnvironmentError
from roofline.records import replace
from roofline.study.executors import executor
from roofline.study.executors.local import Local
from roofline.study.store import manifest
from roofline.study.store.folder import FinishedSweep, Progress, SweepTask, locked, run
from tests.study.store.works import Failing, Least, Rows

TASK = SweepTask("abc", 1000, 64, Rows(), units={"latency_s": "s"}, metadata={"name": "test"})
CHUNKS = 16
HERE = Local(1)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Result of a sweep that nothing interrupted."""
    return run(tmp_path_factory.mktemp("whole"), TASK, HERE).result.read_bytes()


def stopped(folder: Path, after: int, error: type[BaseException] = KeyboardInterrupt) -> list[int]:
    """Run until some chunks are acknowledged; their numbers."""
    acknowledged: list[int] = []

    def progress(now: Progress) -> None:
        if now.chunk is not None:
            acknowledged.append(now.chunk.number)
            if len(acknowledged) == after:
                raise error

    with pytest.raises(error):
        run(folder, TASK, HERE, progress)
    return acknowledged


def computed(folder: Path, task: SweepTask = TASK) -> tuple[list[int], FinishedSweep]:
    """Run to the end; which chunks were computed, and the outcome."""
    log = folder.parent / f"{folder.name}.log"
    outcome = run(folder, replace(task, work=Rows(log=log)), HERE)
    lines = log.read_text().splitlines() if log.exists() else []
    return [int(line.split()[0]) for line in lines], outcome


def test_the_result_has_the_rows_of_all_chunks_in_order(tmp_path: Path) -> None:
    outcome = run(tmp_path, TASK, HERE)
    table = pq.read_table(outcome.result)
    assert table["index"].to_pylist() == [n for n in range(1000) if n % 3 != 1]
    assert outcome == FinishedSweep(tmp_path / "result.parquet", 667, CHUNKS, resumed=0, damaged=0)
    assert len(table) == outcome.rows


def test_the_result_says_what_it_is(result: bytes, tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_bytes(result)
    metadata = pq.read_schema(tmp_path / "r.parquet").metadata
    assert json.loads(metadata[b"roofline"]) == {
        "kind": "sweep",
        "scenario": "abc",
        "version": __version__,
        "units": {"latency_s": "s"},
        "counts": {},
        "name": "test",
    }


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2])
def test_workers_give_the_same_bytes(tmp_path: Path, result: bytes, workers: int) -> None:
    assert run(tmp_path, TASK, Local(workers)).result.read_bytes() == result


def test_a_reduction_is_of_all_rows(tmp_path: Path, result: bytes) -> None:
    (tmp_path / "r.parquet").write_bytes(result)
    expected = Least(20)(pq.read_table(tmp_path / "r.parquet"))
    outcome = run(tmp_path / "sweep", replace(TASK, reduction=Least(20)), HERE)
    assert pq.read_table(outcome.result).to_pylist() == expected.to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("after", range(1, CHUNKS + 1))
def test_an_interrupted_sweep_goes_on_where_it_was(
    tmp_path: Path, result: bytes, after: int
) -> None:
    acknowledged = stopped(tmp_path / "s", after)
    rest, outcome = computed(tmp_path / "s")
    assert sorted(acknowledged + rest) == list(range(CHUNKS))
    assert outcome.resumed == after
    assert outcome.result.read_bytes() == result


def test_a_finished_sweep_computes_nothing_again(tmp_path: Path, result: bytes) -> None:
    run(tmp_path / "s", TASK, HERE)
    rest, outcome = computed(tmp_path / "s")
    assert (rest, outcome.resumed) == ([], CHUNKS)
    assert outcome.result.read_bytes() == result


def test_progress_counts_what_is_on_the_disk(tmp_path: Path) -> None:
    stopped(tmp_path, 5)
    seen: list[Progress] = []

    def progress(now: Progress) -> None:
        _, entries = manifest.read(tmp_path / "manifest.jsonl")
        assert len(entries) == now.done
        assert sum(entry.rows for entry in entries.values()) == now.rows
        seen.append(now)

    run(tmp_path, TASK, HERE, progress)
    assert [now.done for now in seen] == list(range(5, CHUNKS + 1))
    assert [now.configurations for now in seen][:2] == [320, 384]
    assert seen[-1] == Progress(seen[-1].chunk, CHUNKS, CHUNKS, 1000, 667)


def test_a_chunk_is_acknowledged_after_its_part_and_its_line_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    flush, replace_ = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        inode = os.fstat(handle).st_ino
        names = {path.stat().st_ino: path.name for path in tmp_path.rglob("*")}
        name = names.get(inode, "folder")
        steps.append(f"flush {'part' if name.endswith('.part') else name}")
        flush(handle)

    def rename(source: Path, target: Path) -> Path:
        steps.append("rename")
        return replace_(source, target)

    def progress(now: Progress) -> None:
        if now.chunk is None:
            steps.clear()
            return
        written = ["flush part", "rename", "flush parts", "flush manifest.jsonl"]
        assert steps == written
        steps.clear()

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    run(tmp_path, TASK, HERE, progress)
    assert steps == ["flush part", "rename", "flush folder", "flush manifest.jsonl"]  # the result


def spoil_byte(part: Path) -> None:
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, spoil_byte, lambda part: part.write_bytes(part.read_bytes()[:-1])],
    ids=["missing", "changed", "shortened"],
)
def test_a_part_that_is_not_intact_is_made_again(
    tmp_path: Path, result: bytes, spoil: Callable[[Path], Any]
) -> None:
    stopped(tmp_path / "s", CHUNKS)
    spoil(tmp_path / "s" / "parts" / "000003.parquet")
    rest, outcome = computed(tmp_path / "s")
    assert (rest, outcome.resumed, outcome.damaged) == ([3], CHUNKS - 1, 1)
    assert outcome.result.read_bytes() == result


@pytest.mark.parametrize("spoil", [Path.unlink, spoil_byte], ids=["missing", "changed"])
def test_a_result_that_is_not_intact_is_made_again(
    tmp_path: Path, result: bytes, spoil: Callable[[Path], Any]
) -> None:
    spoil(run(tmp_path / "s", TASK, HERE).result)
    rest, outcome = computed(tmp_path / "s")
    assert (rest, outcome.resumed, outcome.damaged) == (list(range(CHUNKS)), 0, CHUNKS)
    assert outcome.result.read_bytes() == result


def test_parts_are_gone_once_their_result_is_there(tmp_path: Path) -> None:
    outcome = run(tmp_path, TASK, HERE)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "manifest.jsonl",
        "result.parquet",
    ]
    assert run(tmp_path, TASK, HERE) == replace(outcome, resumed=CHUNKS)


def test_parts_that_could_not_be_removed_are_the_next_time(
    tmp_path: Path, result: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "x")))
        run(tmp_path, TASK, HERE)
    assert len(list((tmp_path / "parts").iterdir())) == CHUNKS
    assert run(tmp_path, TASK, HERE).result.read_bytes() == result
    assert not (tmp_path / "parts").exists()


def test_a_line_that_was_cut_costs_its_part_alone(tmp_path: Path, result: bytes) -> None:
    stopped(tmp_path / "s", 5)
    path = tmp_path / "s" / "manifest.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    rest, outcome = computed(tmp_path / "s")
    assert rest == list(range(4, CHUNKS))
    assert outcome.result.read_bytes() == result
    _, entries = manifest.read(path)
    assert len(path.read_bytes().splitlines()) == 1 + CHUNKS + 1 == 1 + len(entries)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(TASK, scenario="abd"), "its scenario is abc, this one is abd"),
        (replace(TASK, chunk_size=32), "its chunks have 64 configurations, not 32"),
        (replace(TASK, configurations=999), "it has 1,000 configurations, not 999"),
    ],
)
def test_another_sweep_is_refused_and_left_alone(
    tmp_path: Path, other: SweepTask, said: str
) -> None:
    run(tmp_path, TASK, HERE)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with pytest.raises(InputError, match=said) as caught:
        run(tmp_path, other, HERE)
    assert caught.value.hint == "choose another folder, or remove this one"
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}


def test_what_is_kept_is_said_to_differ(tmp_path: Path) -> None:
    run(tmp_path, replace(TASK, metadata={"keep": "all"}), HERE)
    with pytest.raises(InputError, match="it keeps all, this one pareto"):
        run(tmp_path, replace(TASK, scenario="abd", metadata={"keep": "pareto"}), HERE)
    with pytest.raises(InputError, match="its scenario is abc, this one is abd"):
        run(tmp_path, replace(TASK, scenario="abd", metadata={"keep": "all"}), HERE)


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, TASK, HERE)
    monkeypatch.setattr("roofline.version.__version__", "9.9")
    with pytest.raises(InputError, match=r"begun with roofline .*, this is 9\.9"):
        run(tmp_path, TASK, HERE)


def test_a_result_of_unknown_origin_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "result.parquet").write_text("dear to somebody")
    with pytest.raises(InputError, match=r"result\.parquet is there, but no manifest"):
        run(tmp_path, TASK, HERE)
    assert (tmp_path / "result.parquet").read_text() == "dear to somebody"


def test_a_manifest_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").write_text("{}\n")
    with pytest.raises(DocumentError, match=r"manifest\.jsonl:1"):
        run(tmp_path, TASK, HERE)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(InputError, match="is not a folder"):
        run(tmp_path / "f", TASK, HERE)


def test_two_sweeps_in_one_folder_are_refused(tmp_path: Path) -> None:
    def progress(_: Progress) -> None:
        with pytest.raises(InputError, match=r"another sweep is running in .* \(process \d+ on "):
            run(tmp_path, TASK, HERE)

    assert run(tmp_path, TASK, HERE, progress).chunks == CHUNKS


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from roofline.study.store.folder import locked\n"
        "with locked(Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(InputError, match=rf"\(process {holder.pid} on "),
            locked(tmp_path),
        ):
            pass
        holder.kill()
        holder.wait()
        with locked(tmp_path):
            pass


def test_what_a_killed_sweep_was_writing_is_removed(tmp_path: Path, result: bytes) -> None:
    stopped(tmp_path, 3)
    for place in (".result.parquet.1.part", "parts/.000009.parquet.1.part"):
        (tmp_path / place).write_text("half of it")
    assert run(tmp_path, TASK, HERE).result.read_bytes() == result
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.slow
def test_an_error_of_the_work_names_its_chunk_and_keeps_what_is_finished(tmp_path: Path) -> None:
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        with pytest.raises(InputError) as caught:
            run(folder, replace(TASK, work=Failing(6)), Local(workers))
        assert caught.value.told == (
            "a.yaml:3: chunk 6 (configurations 384 to 447): the batch is too large"
        )
        assert caught.value.hint == "give a smaller one"
        _, entries = manifest.read(folder / "manifest.jsonl")
        # With two workers others may still have been computed.
        assert set(entries) <= set(range(CHUNKS)) - {6}
        assert workers > 1 or set(entries) == set(range(6))


def test_a_folder_that_cannot_be_written_is_an_environment_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(MissingEnvironmentError, match="cannot be written: permission denied"):
        run(tmp_path / "s", TASK, executor("local", 1))


@pytest.mark.parametrize("name", [".lock", "manifest.jsonl", "parts", "result.parquet"])
def test_links_in_the_folder_are_refused_and_not_followed(tmp_path: Path, name: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "s"
    outside.mkdir()
    for kept in (".lock", "manifest.jsonl", "result.parquet", ".a.part", "000000.parquet"):
        (outside / kept).write_text("dear to somebody")
    folder.mkdir()
    (folder / name).symlink_to(outside if name == "parts" else outside / name)
    with pytest.raises(InputError, match=f"{name} is a link"):
        run(folder, TASK, HERE)
    assert {path.read_text() for path in outside.iterdir()} == {"dear to somebody"}
    assert len(list(outside.iterdir())) == 5


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes a pipe")
@pytest.mark.parametrize("name", [".lock", "manifest.jsonl", "parts", "result.parquet"])
def test_pipes_in_the_folder_are_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=f"{name} is not of a sweep"):
        run(tmp_path, TASK, HERE)


def test_files_that_are_not_of_the_sweep_stay(tmp_path: Path) -> None:
    mine = [tmp_path / "parts" / "mine.parquet", tmp_path / ".lock"]
    mine[0].parent.mkdir()
    for path in mine:
        path.write_text("dear to somebody")
    run(tmp_path, TASK, HERE)
    run(tmp_path, TASK, HERE)
    assert {path.read_text() for path in mine} == {"dear to somebody"}
