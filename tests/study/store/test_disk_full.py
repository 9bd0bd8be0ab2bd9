"""A disk that is full, at whatever write, costs nothing that was finished."""

import errno
import io
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import PartialError
from roofline.records import replace
from roofline.study.executors.local import Local
from roofline.study.store import manifest
from roofline.study.store.folder import Progress, SweepTask, run
from roofline.study.store.parts import intact
from tests.study.store.works import Rows

TASK = SweepTask("abc", 300, 64, Rows())
CHUNKS = 5
HERE = Local(1)


@dataclass
class Disk:
    """Room that is left, in bytes and in flushes and renames."""

    room: float = float("inf")
    steps: float = float("inf")
    written: int = 0
    stepped: int = 0

    def take(self, size: int) -> int:
        """Bytes of so many that it writes; an error where it takes none. [B]"""
        taken = int(min(size, self.room - self.written))
        if taken <= 0 < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.written += taken
        return taken

    def open(self) -> None:
        """A file is opened to be written."""

    def step(self) -> None:
        if self.stepped >= self.steps:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.stepped += 1


class Limited(io.FileIO):
    """A file on a `Disk`: like a system, it takes what still fits, and nothing the next time."""

    disk: Disk

    def write(self, content: Any, /) -> int:
        view = memoryview(content).cast("B")
        return super().write(view[: self.disk.take(len(view))])


@contextmanager
def on(disk: Disk) -> Iterator[None]:
    """Everything that is written goes to a disk."""
    opened, replaced, flushed = Path.open, Path.replace, os.fsync

    def open_(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if not {"w", "x", "a", "+"} & set(mode):
            return opened(path, mode, *args, **options)
        disk.open()
        file = Limited(path, mode.replace("b", ""))
        file.disk = disk
        if options.get("buffering") == 0:
            return file
        return io.BufferedRandom(file) if "+" in mode else io.BufferedWriter(file)

    def replace_(path: Path, target: Path) -> Path:
        disk.step()
        return replaced(path, target)

    def fsync(handle: int) -> None:
        disk.step()
        flushed(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", open_)
        patch.setattr(Path, "replace", replace_)
        patch.setattr(os, "fsync", fsync)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Disk]:
    """An uninterrupted result, and what it took."""
    disk = Disk()
    with on(disk):
        result = run(tmp_path_factory.mktemp("whole"), TASK, HERE).result.read_bytes()
    assert disk.written > len(result)
    return result, disk


def check(folder: Path, disk: Disk, result: bytes) -> bool:
    """Run on a disk, and check what it leaves; whether the disk was full."""
    acknowledged: set[int] = set()

    def progress(now: Progress) -> None:
        if now.chunk is not None:
            acknowledged.add(now.chunk.number)

    full = None
    with on(disk):
        try:
            assert run(folder, TASK, HERE, progress).result.read_bytes() == result
        except PartialError as error:
            full = error
    if full is not None:
        assert full.exit_code == 4
        assert "cannot be written: No space left on device" in full.message
        assert f"{len(acknowledged)} of {CHUNKS} chunks are kept" in full.message
    assert not list(folder.rglob("*.part"))
    if acknowledged:
        _, entries = manifest.read(folder / "manifest.jsonl")
        whole = entries.pop(manifest.WHOLE, None)
        assert (whole is None) == (full is not None)
        assert acknowledged == set(entries)
        parts = folder / "parts"
        if whole is None:
            assert all(intact(parts / f"{n:06}.parquet", entry) for n, entry in entries.items())
        else:
            assert intact(folder / "result.parquet", whole)
    log = folder / "log"
    again = run(folder, replace(TASK, work=Rows(log=log)), HERE)
    assert again.result.read_bytes() == result
    lines = log.read_text().splitlines() if log.exists() else []
    assert {int(line.split()[0]) for line in lines} == set(range(CHUNKS)) - acknowledged
    return full is not None


@pytest.mark.slow
def test_it_may_be_full_at_any_byte(tmp_path: Path, whole: tuple[bytes, Disk]) -> None:
    result, took = whole
    for room in range(0, took.written, took.written // 60):
        assert check(tmp_path / str(room), Disk(room=room), result), room
    assert not check(tmp_path / "enough", Disk(room=took.written), result)


@pytest.mark.slow
def test_any_flush_and_rename_may_fail(tmp_path: Path, whole: tuple[bytes, Disk]) -> None:
    result, took = whole
    assert took.stepped > 5 * CHUNKS
    for steps in range(took.stepped):
        assert check(tmp_path / str(steps), Disk(steps=steps), result), steps


SWEEP = """
import sys
from pathlib import Path
from roofline.errors import RooflineError
from roofline.study.executors.local import Local
from roofline.study.store.folder import SweepTask, run
from tests.study.store.works import Rows
try:
    run(Path(sys.argv[1]), SweepTask("abc", 300_000, 64_000, Rows()), Local(int(sys.argv[2])))
except RooflineError as error:
    sys.exit(f"{error.exit_code} {error.told}")
"""


def swept(folder: Path, workers: int = 1, **options: Any) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [sys.executable, "-c", SWEEP, str(folder), str(workers)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    return done.stderr


@pytest.mark.slow
def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path: Path) -> None:
    """The limit is the shell's ulimit: parts fit in it, the result does not."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))

    said = swept(tmp_path / "s", preexec_fn=limit)
    assert said.startswith("4 ")
    assert "File too large; 5 of 5 chunks are kept" in said
    assert swept(tmp_path / "s") == ""
    swept(tmp_path / "whole")
    results = {(tmp_path / name / "result.parquet").read_bytes() for name in ("s", "whole")}
    assert len(results) == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a small disk")
def test_a_small_disk_that_fills_up_keeps_what_was_finished(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        said = swept(disk / "s", workers=2)
        assert said.startswith("4 ")
        assert "No space left on device" in said
        _, entries = manifest.read(disk / "s" / "manifest.jsonl")
        assert f"{len(entries)} of 5 chunks are kept" in said
        assert len(entries) >= 1
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        assert swept(disk / "s", workers=2) == ""
        swept(tmp_path / "whole")
        results = {
            (place / "result.parquet").read_bytes() for place in (disk / "s", tmp_path / "whole")
        }
        assert len(results) == 1
    finally:
        subprocess.run(["umount", str(disk)], check=True)
