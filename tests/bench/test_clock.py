"""The clock of NumPy, and whether it notices that a machine is disturbed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from roofline.bench import clock, published
from roofline.bench.backend import Launch, Timer
from roofline.bench.clock import EVERY, MachineNoise, NumpyBackend, Quiet, noise, threads


def backend(threads: int = 1) -> NumpyBackend:
    return NumpyBackend(threads, 2.0**16, 2.0**24, Quiet(clock.clock(threads)))


def test_launches_take_turns_from_sample_to_sample() -> None:
    seen: list[str] = []
    timer = backend().timer([lambda: seen.append("a"), lambda: seen.append("b")])
    timer(3)
    timer(2)
    assert "".join(seen) == "ababa"


def test_time_that_others_take_is_not_the_kernel_s_with_one_thread() -> None:
    assert backend(1).timer([lambda: time.sleep(0.05)])(1) < 0.02
    assert backend(2).timer([lambda: time.sleep(0.05)])(1) >= 0.05


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({"OPENBLAS_NUM_THREADS": "3"}, 3),
        ({"OPENBLAS_NUM_THREADS": "", "OMP_NUM_THREADS": "5"}, 5),
        ({"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "5"}, 2),
        ({"OPENBLAS_NUM_THREADS": "0", "MKL_NUM_THREADS": "4"}, 4),
    ],
)
def test_the_number_of_threads_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], count: int
) -> None:
    for name in clock.THREADS:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert threads() == count


PIECE_S = 0.001


@dataclass
class Disturbed:
    """Says that the second half of the copies took longer, and that some were slowed down."""

    factor: float
    slow: bool = False
    threads: int = 1
    cache_bytes: float = 2.0**23
    asked: int = 0
    now: float = 0.0
    """Clock of the machine: a copy takes a millisecond, and nothing else takes any time. [s]"""

    def timer(self, launches: Sequence[Launch]) -> Timer:
        def mean(runs: int) -> float:
            self.now += PIECE_S * runs
            return self.factor if self.now > 0.05 else 1.0

        return mean

    def slowed(self) -> tuple[str, ...]:
        self.asked += 1
        return ("others",) if self.slow and self.asked % 4 else ()


def noise_of(machine: Disturbed, monkeypatch: pytest.MonkeyPatch) -> MachineNoise:
    """A tenth of a second of its clock."""
    for name in ("perf_counter", "process_time"):
        monkeypatch.setattr(time, name, lambda: machine.now)
    return noise(machine, 0.1)  # type: ignore[arg-type]  # has all that `noise` asks for


@pytest.mark.parametrize(("factor", "calm"), [(1.0, True), (1.1, True), (1.2, False)])
def test_copies_that_come_to_take_longer_are_noticed(
    monkeypatch: pytest.MonkeyPatch, factor: float, calm: bool
) -> None:
    found = noise_of(Disturbed(factor), monkeypatch)
    assert found.calm is calm
    assert found.taken == 0.0
    assert found.memory == pytest.approx(factor - 1.0)
    assert found.slowed == 0.0


def test_a_core_that_others_slow_down_most_of_the_time_is_not_calm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = noise_of(Disturbed(1.0, slow=True), monkeypatch)
    assert found.slowed == pytest.approx(0.75, abs=0.01)
    assert not found.calm
    assert found.memory == 0.0


def test_noise_is_told_in_percent() -> None:
    assert "differed by 2.0%" in str(MachineNoise(0.01, 0.02, 0.3))
    assert "had the core for 30% of the time" in str(MachineNoise(0.01, 0.02, 0.3))
    assert MachineNoise(0.5, 0.0, 0.2).calm
    assert not MachineNoise(0.0, 0.0, 0.4).calm
    assert not MachineNoise(0.01, 0.5, 0.0).calm
    assert MachineNoise(0.5, 0.0, 0.5).lost == 0.75


def ticking(pieces: Sequence[float]) -> Callable[[], float]:
    """A clock by which the piece takes these times, one after the other."""
    now = [0.0]
    for piece in pieces:
        now += [now[-1], now[-1] + piece]
    return iter(now[1:]).__next__


def test_a_core_is_slow_where_the_piece_of_work_is_before_or_after() -> None:
    quiet = Quiet(ticking([1.0, 1.05, 1.2, 1.0, 1.0]))
    assert [bool(quiet.slowed()) for _ in range(4)] == [False, True, True, False]
    assert quiet.share == pytest.approx(1 / 5)


def test_what_is_usual_is_found_on_a_core_that_is_shared_most_of_the_time() -> None:
    """The first reading was slow; one in four is not."""
    quiet = Quiet(ticking([1.5, *[1.5, 1.5, 1.0, 1.5] * 40]))
    slow = [bool(quiet.slowed()) for _ in range(160)]
    assert not any(slow[: EVERY - 2])
    assert all(slow[EVERY:])


def test_this_processor_has_a_name_for_files() -> None:
    here = published.detect()
    assert here.cores >= 1
    assert here.cache_bytes >= 2**15
    assert here.memory_bytes > 2**28
    assert here.name.replace("-", "").isalnum()
    odd = published.Processor("Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz", 8, 1.0, 1.0)
    assert odd.name == "intel-xeon-platinum-8480c-8-cores"


def test_published_rates_grow_with_the_threads() -> None:
    here = published.detect()
    one, four = (published.of_processor(here, count).machine for count in (1, 4))
    assert four.flops_per_s == 4 * one.flops_per_s
    assert four.hbm_bytes_per_s == one.hbm_bytes_per_s
