"""The clock of NumPy, and whether it notices that a machine is disturbed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from roofline.bench import clock, processor
from roofline.bench.backend import Launch, Timer
from roofline.bench.clock import Noise, NumpyBackend, noise, threads


def backend(threads: int = 1) -> NumpyBackend:
    return NumpyBackend(threads, cache_bytes=2.0**16, memory_bytes=2.0**24)


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


@dataclass
class Disturbed:
    """Says that the second half of the products took longer."""

    factor: float
    threads: int = 1
    cache_bytes: float = 2.0**16

    def timer(self, launches: Sequence[Launch]) -> Timer:
        began = time.perf_counter()
        return lambda runs: self.factor if time.perf_counter() - began > 0.05 else 1.0


@pytest.mark.parametrize(("factor", "calm"), [(1.0, True), (1.04, True), (1.2, False)])
def test_work_that_comes_to_take_longer_is_noticed(factor: float, calm: bool) -> None:
    found = noise(Disturbed(factor), 0.1)  # type: ignore[arg-type]
    assert found.calm is calm
    assert found.arithmetic == pytest.approx(factor - 1.0)


def test_noise_is_told_in_percent() -> None:
    assert "differed by 1.0% in arithmetic" in str(Noise(0.01, 0.02, 0.3))
    assert "30% of the time" in str(Noise(0.01, 0.02, 0.3))
    assert not Noise(0.01, 0.5, 0.0).calm


def test_this_processor_has_a_name_for_files() -> None:
    here = processor.detect()
    assert here.cores >= 1
    assert here.cache_bytes >= 2**15
    assert here.memory_bytes > 2**28
    assert here.name.replace("-", "").isalnum()
    odd = processor.Processor("Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz", 8, 1.0, 1.0)
    assert odd.name == "intel-xeon-platinum-8480c-8-cores"


def test_published_rates_grow_with_the_threads() -> None:
    here = processor.detect()
    one, four = (processor.machine(here, count) for count in (1, 4))
    assert four.flops_per_s == 4 * one.flops_per_s
    assert four.hbm_bytes_per_s == one.hbm_bytes_per_s
