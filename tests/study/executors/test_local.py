"""Processes of this machine compute each chunk once, whatever happens to them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError, PartialError, RooflineError
from roofline.study.executors import Executor, cores, executor
from roofline.study.executors.local import ONE_THREAD, Local
from roofline.study.store.chunk import Chunk, chunks
from tests.study.store import victim
from tests.study.store.works import Dying, Failing, Stuck

NUMBERS = list(range(12))


@dataclass(frozen=True, slots=True)
class Square:
    """Takes longest for the first chunks."""

    def __call__(self, chunk: Chunk) -> int:
        time.sleep(0.02 if chunk.number < 2 else 0)
        return chunk.number**2


@dataclass(frozen=True, slots=True)
class Process:
    """Who computes it, with what settings."""

    def __call__(self, _: Chunk) -> tuple[int, list[str | None], set[str]]:
        return os.getpid(), [os.environ.get(name) for name in ONE_THREAD], set(sys.modules)


@dataclass(frozen=True, slots=True)
class Large:
    """More than a pipe holds."""

    def __call__(self, chunk: Chunk) -> bytes:
        return bytes([chunk.number]) * 3_000_000


@dataclass(frozen=True, slots=True)
class Printing:
    """Prints where answers go."""

    def __call__(self, chunk: Chunk) -> int:
        sys.stdout.write("not an answer\n")
        sys.stdout.flush()
        os.write(1, b"nor this\n")
        return chunk.number


@dataclass(frozen=True, slots=True)
class Bomb:
    """Kills the process that pickles it, once."""

    fuse: Path

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.fuse.exists():
            self.fuse.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Bomb, (self.fuse,)


@dataclass(frozen=True, slots=True)
class Exploding:
    """Dies amid an answer, of which a part is sent already."""

    folder: Path

    def __call__(self, chunk: Chunk) -> Any:
        return bytes(3_000_000), Bomb(self.folder / f"fuse-{chunk.number}")


def cut(count: int = len(NUMBERS)) -> Iterator[Chunk]:
    return chunks(count * 10, 10)


def came(runner: Executor, work: Any, count: int = len(NUMBERS)) -> dict[int, Any]:
    """Result by number of the chunk."""
    pairs = [(chunk.number, result) for chunk, result in runner.run(work, cut(count))]
    assert len(dict(pairs)) == len(pairs), "a chunk came twice"
    return dict(sorted(pairs))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_chunk_comes_once(workers: int) -> None:
    assert came(Local(workers), Square()) == {n: n * n for n in NUMBERS}


def test_one_worker_is_this_process() -> None:
    assert {pid for pid, *_ in came(Local(1), Process()).values()} == {os.getpid()}


@pytest.mark.slow
def test_workers_are_other_processes_of_one_thread_each_that_load_little() -> None:
    found = list(came(Local(2), Process()).values())
    assert os.getpid() not in {pid for pid, *_ in found}
    assert all(set(settings) == {"1"} for _, settings, _ in found)
    for *_, modules in found:
        assert not modules & {"pandas", "plotly", "scipy", "ray", "typer", "pydantic"}


@pytest.mark.slow
def test_large_results_cross_whole() -> None:
    for number, result in came(Local(2), Large()).items():
        assert result == bytes([number]) * 3_000_000


@pytest.mark.slow
def test_what_the_work_prints_is_no_answer(capfd: pytest.CaptureFixture[str]) -> None:
    assert came(Local(2), Printing()) == {n: n for n in NUMBERS}
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("not an answer") == err.count("nor this") == len(NUMBERS)


@pytest.mark.slow
def test_no_more_workers_start_than_there_are_chunks() -> None:
    before = threading.active_count()
    assert came(Local(20), Square(), count=2) == {0: 0, 1: 1}
    assert threading.active_count() == before
    assert came(Local(3), Square(), count=0) == {}


@pytest.mark.slow
def test_chunks_are_taken_as_results_are_fetched() -> None:
    taken = 0

    def counted() -> Iterator[Chunk]:
        nonlocal taken
        for chunk in cut(1000):
            taken += 1
            yield chunk

    with closing(Local(2).run(Square(), counted())) as results:
        for fetched in range(1, 30):
            next(results)
            time.sleep(0.01)
            assert taken <= fetched + 2 * 2


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    survived = came(Local(2), Dying(3, times=2, folder=tmp_path))
    assert sorted(survived) == NUMBERS
    assert len(list(tmp_path.glob("death-*"))) == 2


@pytest.mark.slow
def test_a_worker_that_dies_amid_its_answer_is_replaced(tmp_path: Path) -> None:
    answers = came(Local(2), Exploding(tmp_path), count=3)
    assert [content for content, _ in answers.values()] == [bytes(3_000_000)] * 3
    assert len(list(tmp_path.glob("fuse-*"))) == 3


@pytest.mark.slow
def test_a_chunk_that_kills_every_worker_ends_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(PartialError, match=r"chunk 3 \(configurations 30 to 39\)") as caught:
        came(Local(2), Dying(3, times=99, folder=tmp_path))
    assert "its worker died 3 times (SIGKILL)" in caught.value.message
    assert "fewer workers" in caught.value.hint
    assert len(list(tmp_path.glob("death-*"))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_users_error_is_located(workers: int) -> None:
    with pytest.raises(InputError) as caught:
        came(Local(workers), Failing(4))
    error = caught.value
    assert error.told == "a.yaml:3: chunk 4 (configurations 40 to 49): the batch is too large"
    assert (error.hint, error.where, error.exit_code) == ("give a smaller one", "a.yaml:3", 2)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_bug_keeps_its_kind_and_its_place(workers: int) -> None:
    with pytest.raises(ZeroDivisionError, match="a bug") as caught:
        came(Local(workers), Failing(4, bug=True))
    notes = "\n".join(caught.value.__notes__)
    assert "in chunk 4 (configurations 40 to 49)" in notes
    assert (workers == 1) or "works.py" in notes


def test_a_bug_that_cannot_be_pickled_is_told_in_words() -> None:
    with pytest.raises(RuntimeError, match="OwnError: of its own"):
        came(Local(2), Stuck())


@pytest.mark.slow
def test_workers_end_when_the_results_are_not_wanted() -> None:
    results = Local(2).run(Process(), cut(1000))
    pids = {next(results)[1][0] for _ in range(10)}
    results.close()
    assert not [pid for pid in pids if alive(pid)]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def sweep(folder: Path, log: Path) -> "subprocess.Popen[str]":
    """A sweep in a group of processes of its own, as a terminal starts one; the first is done."""
    process = subprocess.Popen(
        [sys.executable, "-m", victim.__name__, str(folder), str(log), "local", "2"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def workers_of(log: Path) -> set[int]:
    return {int(line.split()[1]) for line in log.read_text().splitlines()}


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_do_not_outlive_their_sweep(tmp_path: Path, ending: signal.Signals) -> None:
    process = sweep(tmp_path / "s", tmp_path / "log")
    with process:
        process.send_signal(ending)
    patience = time.monotonic() + 10
    while any(alive(pid) for pid in workers_of(tmp_path / "log")):
        assert time.monotonic() < patience, "a worker is still there"
        time.sleep(0.05)


@pytest.mark.slow
def test_an_interrupt_of_all_is_for_the_sweep_alone(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of a terminal; one of them says so."""
    process = sweep(tmp_path / "s", tmp_path / "log")
    with process:
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate()
    assert errors.count("KeyboardInterrupt") == 1, errors
    assert process.returncode == -signal.SIGINT


EARLY = """
import os, signal, sys, time
from roofline.study.executors.local import Local
from roofline.study.store.chunk import chunks
from tests.study.executors.test_local import Square

def cut():
    for chunk in chunks(40, 10):
        if chunk.number == 1:  # the first worker is just starting
            time.sleep(float(sys.argv[1]))
            os.killpg(0, signal.SIGINT)
            time.sleep(0.5)
        yield chunk

list(Local(2).run(Square(), cut()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.03, 0.06, 0.1])
def test_an_interrupt_while_workers_start_is_for_the_sweep_alone(delay: float) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY, str(delay)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert done.stderr.count("KeyboardInterrupt") == 1, done.stderr
    assert done.returncode == -signal.SIGINT


def test_an_executor_is_found_by_its_name() -> None:
    assert executor() == executor("local") == Local(cores())
    assert executor("local", 3) == Local(3)
    with pytest.raises(InputError, match="no executor 'loca'") as caught:
        executor("loca")
    assert caught.value.hint == "give one of local, ray"
    with pytest.raises(InputError, match="0 workers"):
        executor("local", 0)


def test_errors_cross_processes_whole() -> None:
    import copy

    error = RooflineError("what", hint="why", where="a:1")
    other = copy.copy(error)
    assert (other.told, other.hint, other.where) == ("a:1: what", "why", "a:1")
