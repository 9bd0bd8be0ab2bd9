"""Argument sets, samples and deadlines, on a backend whose clock says what it is told."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from roofline.bench.backend import ArrayPool, CaptureError, Launch, Sizes, Timer
from roofline.bench.engine import AFTER, LOST, footprint, measure, run
from roofline.bench.probe import ProbePoint, points
from roofline.bench.stopping import Stop
from roofline.errors import InputError
from roofline.records import replace
from tests.bench.probes import LAUNCHED, Clockwork, probe


def at(size: int, state: str) -> ProbePoint:
    return next(p for p in points(probe(sizes=(size,))) if p.state == state)


def test_a_warm_point_has_one_argument_set() -> None:
    assert footprint(at(256, "warm"), 4096).sets == 1


def test_cold_sets_fill_the_cache_three_times() -> None:
    # 256 numbers in, 256 out: 2 KiB a set; three caches of 4 KiB.
    assert footprint(at(256, "cold"), 4096).sets == 6


def test_near_sets_stay_in_the_cache() -> None:
    point = ProbePoint(at(256, "cold").probe, {"size": 256}, "near")
    assert footprint(point, 2.0**15).sets == 4
    assert footprint(point, 2.0**15).total_bytes < 2.0**15 / 2


def test_only_what_is_streamed_is_there_in_every_set() -> None:
    # 256 + 64 numbers read and 256 written; 256 and 256 in each further set.
    one, six = footprint(at(256, "warm"), 4096), footprint(at(256, "cold"), 4096)
    assert one.total_bytes == 4 * 576
    assert six.total_bytes == 4 * (576 + 5 * 512)


def test_an_array_larger_than_the_cache_is_cold_by_itself() -> None:
    assert footprint(at(65536, "cold"), 4096).sets == 1


def test_sets_keep_to_the_memory() -> None:
    needs = footprint(at(256, "cold"), 2.0**20, 2.0**16)
    assert 1 < needs.sets < 1536
    assert needs.total_bytes <= 2.0**16


def test_sizes_count_what_a_pool_then_gives() -> None:
    sizes, pool = Sizes(), ArrayPool(np)
    point = at(100, "warm")
    point.probe.arguments(sizes, point.at)
    pool.reserve(sizes.numbers, sizes.room)
    point.probe.arguments(pool, point.at)
    with pytest.raises(AssertionError, match="not reserved"):
        pool.normal(1000)


def test_numbers_are_normal_and_cannot_be_written_to() -> None:
    pool = ArrayPool(np)
    pool.reserve({"fp32": 1 << 16}, 0)
    numbers = pool.normal(1 << 16)
    assert abs(float(numbers.mean())) < 0.02
    assert abs(float(numbers.std()) - 1) < 0.02
    with pytest.raises(ValueError, match="read-only"):
        numbers[0] = 1.0


def test_cold_runs_rotate_what_is_streamed_and_keep_the_rest() -> None:
    LAUNCHED.clear()
    backend = Clockwork()
    found = measure(at(256, "cold"), backend, ArrayPool(np), Stop(least=12))
    streamed, kept = zip(*LAUNCHED, strict=True)
    assert found.sets == len(set(streamed)) == 6
    assert len(set(kept)) == 1
    assert streamed[:6] == streamed[6:12]


def test_a_sample_spans_enough_for_the_clock() -> None:
    backend = Clockwork(span_s=0.9995e-4)
    found = measure(at(64, "warm"), backend, ArrayPool(np), Stop())
    assert found.runs == 100
    assert backend.asked[-1] == 100


def test_equal_times_converge_after_ten_samples() -> None:
    found = measure(at(64, "warm"), Clockwork(), ArrayPool(np), Stop())
    assert (len(found.samples), found.stopped) == (10, "converged")
    assert found.median.half == 0


def test_scattered_times_stop_with_the_budget() -> None:
    backend = Clockwork(times=(1.0, 2.0))
    found = measure(at(64, "warm"), backend, ArrayPool(np), Stop(budget_s=0.0))
    assert (len(found.samples), found.stopped) == (10, "time")


def test_every_finished_point_is_handed_on_and_the_rest_named() -> None:
    every = list(points(probe()))
    kept: list[str] = []
    left = run(every, Clockwork(), lambda m: kept.append(m.point.name), stop=Stop())
    assert (len(kept), left) == (len(every), [])
    left = run(every, Clockwork(), lambda m: None, stop=Stop(), deadline=time.perf_counter() - 1)
    assert left == [(point, "the budget is spent") for point in every]


def test_nothing_is_compiled_that_would_not_be_ready_before_the_deadline() -> None:
    slow = list(points(replace(probe("slow"), build_s=60.0)))
    quick = list(points(probe("quick")))
    kept: list[str] = []
    left = run(
        [*slow, *quick],
        Clockwork(),
        lambda m: kept.append(m.point.name),
        stop=Stop(),
        deadline=time.perf_counter() + 30.0,
    )
    assert left == [(point, "the budget is spent") for point in slow]
    assert kept == [point.name for point in quick]


@dataclass
class Beset(Clockwork):
    """Others slow down whatever is measured in the first three tries."""

    shared: bool = True
    tries: int = 0

    def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
        self.tries += 1
        return super().timer(launches, captured=captured)

    def slowed(self) -> tuple[str, ...]:
        return ("others",) if self.tries <= 3 else ()


def test_a_point_that_others_slowed_down_is_measured_again_when_they_do_not() -> None:
    every = list(points(probe()))
    kept: list[tuple[str, str]] = []
    run(every, Beset(), lambda m: kept.append((m.point.name, m.stopped)), stop=Stop())
    names = [point.name for point in every]
    first, good = kept[:3], kept[3:]
    assert first == [(name, "slowed") for name in names[:3]]
    assert sorted(name for name, _ in good) == sorted(names)
    assert {stopped for _, stopped in good} == {"converged"}
    assert good[1] == (names[0], "converged")


def test_a_device_of_one_s_own_gives_what_it_gives() -> None:
    kept: list[str] = []
    run(
        list(points(probe())),
        Beset(shared=False),
        lambda m: kept.append(m.stopped),
        stop=Stop(),
    )
    assert kept == ["slowed"] * 3 + ["converged"] * 3


@dataclass
class Failing(Clockwork):
    """Fails as it is told at some timers, and may be lost by it."""

    failures: Mapping[int, Exception] = field(default_factory=dict)
    lost: bool = False
    timers: int = 0
    recovered: int = 0

    def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
        self.timers += 1
        if error := self.failures.get(self.timers):
            raise error
        return super().timer(launches, captured=captured)

    def recover(self) -> None:
        self.recovered += 1
        if self.lost:
            raise RuntimeError("cudaErrorIllegalAddress: the context is gone")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("out of memory: 3 GiB"), "no memory is left for it"),
        (RuntimeError("status 13\nand more"), "RuntimeError: status 13"),
        (AssertionError(), "AssertionError"),
        (InputError("no such product", hint="leave it out"), "no such product"),
    ],
)
def test_a_point_that_fails_is_left_out_and_ends_nothing(error: Exception, said: str) -> None:
    every = list(points(probe()))
    kept: list[str] = []
    backend = Failing(failures={2: error})
    left = run(every, backend, lambda m: kept.append(m.point.name), stop=Stop())
    assert left == [(every[1], said)]
    assert kept == [point.name for point in every if point is not every[1]]
    assert backend.recovered == (not isinstance(error, InputError))


def test_nothing_is_begun_after_the_device_was_lost() -> None:
    every = list(points(probe()))
    kept: list[str] = []
    backend = Failing(failures={3: RuntimeError("illegal address")}, lost=True)
    left = run(every, backend, lambda m: kept.append(m.point.name), stop=Stop())
    assert len(kept) == 2
    assert [point for point, _ in left] == every[2:]
    assert left[0][1].startswith(f"{LOST} after it: RuntimeError: illegal address; RuntimeError")
    assert {reason for _, reason in left[1:]} == {AFTER}


def test_a_second_try_that_fails_loses_no_point() -> None:
    every = list(points(probe()))[:2]
    kept: list[str] = []

    @dataclass
    class Both(Failing):
        shared: bool = True

        def slowed(self) -> tuple[str, ...]:
            return ("others",) if self.timers == 1 else ()

    backend = Both(failures={3: RuntimeError("once")})
    left = run(every, backend, lambda m: kept.append(m.stopped), stop=Stop())
    assert (kept, left) == (["slowed", "converged"], [])


def test_short_runs_are_repeated_until_a_sample_spans_enough() -> None:
    """One run alone has the start of the device in it: ten times what each of many takes."""

    @dataclass
    class Starting(Clockwork):
        span_s: float = 2e-4

        def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
            return lambda runs: 1e-6 + 9e-6 / runs

    found = measure(at(64, "warm"), Starting(), ArrayPool(np), Stop())
    assert 191 <= found.runs <= 220
    assert found.runs * found.median.value >= 2e-4


def test_a_device_is_kept_at_work_before_the_first_sample() -> None:
    point = at(64, "warm")
    busy = ProbePoint(replace(point.probe, busy_s=0.5), point.at, point.state)
    backend = Clockwork(times=(1e-3,), passes=2)
    measure(busy, backend, ArrayPool(np), Stop())
    assert len(backend.asked) == 3 + 250 + 10


def test_what_cannot_be_captured_is_launched_and_says_so() -> None:
    @dataclass
    class Refusing(Clockwork):
        replays: bool = True
        refuses: bool = True

        def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
            if captured and self.refuses:
                raise CaptureError("not permitted")
            return super().timer(launches)

    first = at(64, "warm")
    assert not measure(first, Refusing(), ArrayPool(np), Stop()).replayed
    assert measure(first, Refusing(refuses=False), ArrayPool(np), Stop()).replayed
    assert not measure(first, Clockwork(), ArrayPool(np), Stop()).replayed
