"""A Ray cluster computes the same chunks to the same bytes, also when it loses workers."""

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError, MissingEnvironmentError, PartialError
from roofline.records import replace
from roofline.study.executors import executor
from roofline.study.executors.local import Local
from roofline.study.executors.ray import LOCK, SESSION, Ray, session_folder
from roofline.study.store.chunk import Chunk, chunks
from roofline.study.store.folder import Progress, SweepTask, run
from tests.cases import cases
from tests.study.store import victim
from tests.study.store.works import Dying, Failing, Rows

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install '.[ray]'"
)
TASK = SweepTask("abc", 1000, 64, Rows())
CHUNKS = 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = importlib.import_module("ray")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return run(tmp_path_factory.mktemp("whole"), TASK, Local(1)).result.read_bytes()


@dataclass(frozen=True, slots=True)
class Process:
    """Who computes it."""

    def __call__(self, _: Chunk) -> int:
        return os.getpid()


@needs_ray
@pytest.mark.ray
def test_a_cluster_that_is_not_there_is_an_environment_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "nonsense")
    with pytest.raises(MissingEnvironmentError, match="no Ray cluster can be had at 'nonsense'"):
        list(Ray().run(Process(), chunks(10, 10)))


@pytest.mark.slow
@needs_ray
@pytest.mark.ray
def test_a_cluster_of_its_own_gives_the_bytes_of_this_process_and_prints_nothing(
    tmp_path: Path, result: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    before = set(Path("/tmp").glob(f"{SESSION}*"))
    dying = replace(TASK, work=Dying(3, times=1, folder=tmp_path))
    assert run(tmp_path / "s", dying, executor("ray", 2)).result.read_bytes() == result
    assert list(tmp_path.glob("death-*"))
    assert capfd.readouterr().out == ""
    assert not importlib.import_module("ray").is_initialized()
    assert set(Path("/tmp").glob(f"{SESSION}*")) <= before


@pytest.mark.skipif(os.name != "posix", reason="elsewhere Ray's own folder is taken")
def test_the_folder_of_a_cluster_goes_with_it_and_that_of_a_killed_one_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    killed, foreign = tmp_path / f"{SESSION}killed", tmp_path / f"{SESSION}foreign"
    (killed / "session_1" / "logs").mkdir(parents=True)
    (killed / "session_latest").symlink_to("session_1")
    (killed / LOCK).touch()
    (foreign / "dear to somebody").mkdir(parents=True)
    with session_folder() as held:
        (held / "session_2").mkdir()
        assert not killed.exists()
        with session_folder() as other:
            assert set(tmp_path.iterdir()) == {held, other, foreign}
        assert (held / "session_2").is_dir()
    assert list(tmp_path.iterdir()) == [foreign]


@pytest.mark.slow
@needs_ray
@pytest.mark.ray
def test_a_killed_sweep_goes_on_with_another_executor(tmp_path: Path) -> None:
    folder, log = tmp_path / "s", tmp_path / "log"
    with subprocess.Popen(
        [sys.executable, "-m", victim.__name__, str(folder), str(log), "ray", "2"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(3)]
        process.kill()
    outcome = run(folder, victim.task(tmp_path / "rest"), Local(1))
    repeated = {int(line.split()[0]) for line in (tmp_path / "rest").read_text().splitlines()}
    assert not repeated & set(acknowledged)
    whole = run(tmp_path / "whole", victim.task(), Local(1))
    assert outcome.result.read_bytes() == whole.result.read_bytes()


def losing(folder: Path, part: str) -> tuple[int, str]:
    """Sweep on a cluster of a head and a node that loses some: exit code and last words.

    Args:
        folder: For the sweep.
        part: ``"node"``, ``"head"`` or ``"both"``.
    """
    utilities = importlib.import_module("ray.cluster_utils")
    cores = {"num_cpus": 1}
    cluster = utilities.Cluster(
        initialize_head=True, head_node_args={**cores, "include_dashboard": False}
    )
    try:
        node = cluster.add_node(**cores)
        line = [victim.__name__, str(folder / "s"), str(folder / "log"), "ray", "2", "0.1"]
        paths = {"PYTHONPATH": os.pathsep.join(sys.path), "RAY_ADDRESS": cluster.address}
        with subprocess.Popen(
            [sys.executable, "-m", *line],
            env=os.environ | paths,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            for name, lost in (("node", node), ("head", cluster.head_node)):
                if part in (name, "both"):
                    lost.kill_all_processes(check_alive=False, allow_graceful=False)
            _, errors = process.communicate(timeout=300)
        return process.returncode, errors
    finally:
        cluster.shutdown()


@pytest.mark.slow
@needs_ray
@pytest.mark.ray
def test_a_lost_node_costs_nothing(tmp_path: Path) -> None:
    code, errors = losing(tmp_path, "node")
    assert code == 0, errors
    whole = run(tmp_path / "whole", victim.task(), Local(1))
    assert (tmp_path / "s" / "result.parquet").read_bytes() == whole.result.read_bytes()


@pytest.mark.slow
@needs_ray
@pytest.mark.ray
@pytest.mark.parametrize("part", cases(["both"], ["head", "both"]))
def test_a_lost_head_is_told_and_what_was_computed_is_kept(tmp_path: Path, part: str) -> None:
    code, errors = losing(tmp_path, part)
    if part == "both" or code:  # what is left of a cluster may end what it has begun
        assert code == 1
        assert "MissingEnvironmentError: the Ray cluster at" in errors
    outcome = run(tmp_path / "s", victim.task(), Local(1))
    assert outcome.resumed > 0
    whole = run(tmp_path / "whole", victim.task(), Local(1))
    assert outcome.result.read_bytes() == whole.result.read_bytes()


@dataclass(frozen=True, slots=True)
class Slow:
    """Leaves a file when it ends."""

    folder: Path

    def __call__(self, chunk: Chunk) -> None:
        time.sleep(0 if chunk.number == 0 else 10)
        (self.folder / str(chunk.number)).touch()


@needs_ray
@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
class TestOnACluster:
    def test_a_worker_that_dies_amid_a_chunk_costs_nothing(
        self, tmp_path: Path, result: bytes
    ) -> None:
        dying = replace(TASK, work=Dying(3, times=2, folder=tmp_path))
        outcome = run(tmp_path / "s", dying, Ray(2))
        assert outcome.result.read_bytes() == result
        assert len(list(tmp_path.glob("death-*"))) == 2

    def test_a_worker_that_is_killed_from_outside_costs_nothing(self) -> None:
        seen, killed = set(), False
        with closing(Ray(2).run(Process(), chunks(200, 10))) as results:
            for chunk, pid in results:
                assert chunk.number not in seen
                seen.add(chunk.number)
                if not killed:
                    os.kill(pid, signal.SIGKILL)
                    killed = True
        assert seen == set(range(20))

    def test_a_chunk_that_kills_every_worker_ends_the_sweep(self, tmp_path: Path) -> None:
        acknowledged: set[int] = set()

        def progress(now: Progress) -> None:
            acknowledged.update([now.chunk.number] if now.chunk else [])

        deadly = replace(TASK, work=Dying(3, times=99, folder=tmp_path))
        with pytest.raises(PartialError, match=r"chunk 3 .* its worker died 3 times"):
            run(tmp_path / "s", deadly, Ray(2), progress)
        outcome = run(tmp_path / "s", TASK, Local(1))
        assert outcome.resumed == len(acknowledged)

    def test_what_is_not_wanted_any_more_makes_room_for_others(self, tmp_path: Path) -> None:
        results = Ray(2).run(Slow(tmp_path), chunks(100, 10))
        next(results)
        results.close()
        assert len(list(Ray(2).run(Process(), chunks(100, 10)))) == 10
        assert [path.name for path in tmp_path.iterdir()] == ["0"]

    def test_errors_are_those_of_this_process(self) -> None:
        with pytest.raises(InputError) as caught:
            list(Ray(2).run(Failing(1), chunks(30, 10)))
        assert (
            caught.value.told
            == "a.yaml:3: chunk 1 (configurations 10 to 19): the batch is too large"
        )
        with pytest.raises(ZeroDivisionError, match="a bug") as bug:
            list(Ray(2).run(Failing(1, bug=True), chunks(30, 10)))
        assert "works.py" in "\n".join(bug.value.__notes__)

    def test_chunks_are_taken_as_results_are_fetched(self) -> None:
        taken = 0

        def counted() -> Iterator[Chunk]:
            nonlocal taken
            for chunk in chunks(10_000, 10):
                taken += 1
                yield chunk

        with closing(Ray(2).run(Process(), counted())) as results:
            for fetched in range(1, 30):
                next(results)
                assert taken <= fetched + 2 * 2


@pytest.mark.slow
def test_without_ray_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingEnvironmentError, match="needs Ray, which is not installed") as error:
        run(tmp_path / "s", TASK, executor("ray", 2))
    assert error.value.exit_code == 3
    assert error.value.hint == "pip install 'roofline[ray]', or use the executor local"
