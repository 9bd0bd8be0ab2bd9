"""The timer's rules, with a clock and a device that are made up."""

from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.bench.backend import Backend, CaptureError
from roofline.bench.engine import samples
from roofline.bench.gpu.backend import CupyBackend, Graphs
from roofline.bench.gpu.device import CudaDevice, Sku
from roofline.bench.stopping import Samples, Stop, median, sample


def ticking(step: float) -> Callable[[], float]:
    ticks = count()
    return lambda: step * next(ticks)


def never() -> tuple[str, ...]:
    return ()


def test_a_steady_kernel_takes_ten_samples() -> None:
    found = sample(lambda: 2.0, never, Stop(), ticking(0.0))
    assert found == Samples((2.0,) * 10, "converged", {})


def test_an_unsteady_kernel_stops_at_the_budget() -> None:
    values = iter(range(1, 10_000))
    found = sample(lambda: float(next(values)), never, Stop(budget_s=1.0), ticking(0.05))
    assert found.stopped == "time"
    assert len(found.values) == 20


def test_a_slow_sample_is_kept_where_the_clock_was_honest() -> None:
    values = iter([100.0, *[1.0] * 20])
    assert sample(lambda: next(values), never, Stop(), ticking(0.0)).values[0] == 100.0


def test_samples_of_a_slowed_clock_are_dropped_and_counted() -> None:
    slowed: Iterator[tuple[str, ...]] = iter([("power cap",), ("power cap", "temperature")])
    values = iter([7.0, 8.0, *[1.0] * 20])
    found = sample(lambda: next(values), lambda: next(slowed, ()), Stop(), ticking(0.0))
    assert found.values == (1.0,) * 10
    assert found.stopped == "converged"
    assert found.dropped == {"power cap": 1, "power cap, temperature": 1}


def test_a_clock_that_stays_slow_is_what_the_device_gives() -> None:
    found = sample(lambda: 1.0, lambda: ("power cap",), Stop(budget_s=1.0), ticking(0.1))
    assert found.stopped == "slowed"
    assert found.values == (1.0,) * 20
    assert found.dropped == {"power cap": 20}


def test_samples_that_come_late_enough_are_not_given_up_on() -> None:
    """Held down at first, as after another probe: the honest samples count alone."""
    slowed = iter([("power cap",)] * 19)
    values = iter([9.0] * 19 + [1.0] * 20)
    found = sample(lambda: next(values), lambda: next(slowed, ()), Stop(), ticking(0.0))
    assert (set(found.values), found.stopped) == ({1.0}, "converged")


class Stream:
    """Runs at once; while it is captured, launches are kept."""

    def __init__(self, device: "FakeCupy") -> None:
        self.device = device

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def begin_capture(self) -> None:
        self.device.captured = []

    def end_capture(self) -> Any:
        kept, self.device.captured = self.device.captured, None
        assert kept is not None

        def replay(stream: Stream) -> None:
            self.device.now += self.device.gap_s
            for name in kept:
                self.device.execute(name)

        return SimpleNamespace(launch=replay, length=len(kept))


class FakeCupy:
    """A device whose kernels take so many seconds each, and a graph a gap more."""

    def __init__(self, *, seconds: float = 1e-6, gap_s: float = 0.0) -> None:
        self.now, self.seconds, self.gap_s = 0.0, seconds, gap_s
        self.captured: list[str] | None = None
        self.ran: list[str] = []
        self.refuses = False
        self.cuda = SimpleNamespace(
            Stream=lambda non_blocking: Stream(self),
            Event=self.event,
            Device=lambda: SimpleNamespace(synchronize=lambda: None),
            get_elapsed_time=lambda began, ended: 1e3 * (ended.at - began.at),
        )

    def event(self) -> Any:
        event = SimpleNamespace(at=0.0, synchronize=lambda: None)

        def record(stream: Stream) -> None:
            event.at = self.now

        event.record = record
        return event

    def execute(self, name: str) -> None:
        self.now += self.seconds
        self.ran.append(name)

    def kernel(self, name: str) -> Callable[[], object]:
        def launch() -> None:
            if self.captured is None:
                self.execute(name)
            elif self.refuses:
                raise RuntimeError("not permitted when the stream is capturing")
            else:
                self.captured.append(name)

        return launch


def place(cupy: FakeCupy) -> Backend:
    """Timer of a device without libraries, whose driver holds nothing down."""
    missing: Any = None
    free: Any = SimpleNamespace(slowed=tuple)
    device = CudaDevice(cupy, Sku(90, 132, 80e9, 1.0))
    return CupyBackend(device, Graphs(cupy), missing, missing, free, 1.0, span_s=50e-6)


def timed(cupy: FakeCupy, names: str) -> tuple[Samples, int]:
    launches = [cupy.kernel(name) for name in names]
    return samples(launches, place(cupy), Stop(), captured=True)


def test_a_sample_spans_many_launches_of_one_graph() -> None:
    found, runs = timed(FakeCupy(gap_s=1e-6), "a")
    # One launch and its gap take 2 µs, of which 25 fill 50 µs; as one graph they take 26 µs.
    assert 50 <= runs <= 52
    assert median(found.values).value == pytest.approx(1e-6 * (runs + 1) / runs)
    assert found.stopped == "converged"


def test_argument_sets_take_turns() -> None:
    cupy = FakeCupy()
    _, runs = timed(cupy, "abc")
    assert runs % 3 == 0
    tail = cupy.ran[-runs:]
    assert tail == list("abc") * (runs // 3)


def test_a_long_launch_is_not_repeated() -> None:
    assert timed(FakeCupy(seconds=1e-3), "a")[1] == 1


def test_probes_are_timed_in_whole_rounds() -> None:
    cupy = FakeCupy()
    timer = place(cupy).timer([cupy.kernel(name) for name in "abc"])
    assert timer(4) == pytest.approx(1e-6)
    assert cupy.ran[-6:] == list("abcabc")


def test_what_cannot_be_captured_is_not_timed_as_something_else() -> None:
    cupy = FakeCupy()
    cupy.refuses = True
    with pytest.raises(CaptureError, match="not permitted"):
        place(cupy).timer([cupy.kernel("a")])(5)
    assert place(cupy).timer([cupy.kernel("a")], captured=False)(5) == pytest.approx(1e-6)
    assert cupy.ran[-5:] == list("aaaaa")


def test_the_host_launches_onto_a_device_that_is_at_work() -> None:
    """The last argument set goes ahead, so that the first is as cold as the others."""
    cupy = FakeCupy()
    place(cupy).timer([cupy.kernel(name) for name in "abc"], captured=False)(3)
    assert cupy.ran == list("cabc")


def test_what_is_not_to_be_captured_is_timed_with_its_gaps() -> None:
    cupy = FakeCupy(gap_s=5e-6)
    timer = place(cupy).timer([cupy.kernel("a")], captured=False)
    assert timer(5) == pytest.approx(1e-6)
    assert place(cupy).timer([cupy.kernel("a")])(5) == pytest.approx(2e-6)


def test_the_device_is_at_work_before_the_first_event() -> None:
    """A graph that follows itself: an idle device would start after the event has passed."""
    cupy = FakeCupy()
    Graphs(cupy).replay(Graphs(cupy).captured([cupy.kernel("a")]))
    assert cupy.ran == ["a", "a"]
    assert cupy.now == pytest.approx(2e-6)
