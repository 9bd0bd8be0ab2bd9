"""CuPy as a place where probes run; see `roofline.bench.backend.Backend`.

A graph of launches is replayed as one between two events, so that the host's part is paid once per
graph and not per launch.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from roofline.bench.backend import CaptureError, Launch, Timer, missing
from roofline.bench.gpu.device import CudaDevice
from roofline.bench.gpu.launch import Call, Collective, LibraryCall, Multiply
from roofline.bench.gpu.libraries import GpuRanks, Products, available
from roofline.bench.gpu.nvml import Monitor
from roofline.bench.probe import Probe, ProbePoint
from roofline.units import parse

MEMORY_SHARE: Final = 0.125
"""Share of what is free for one point; the pool keeps numbers of several types."""
FILL_BYTES_PER_S: Final = parse("100 GB/s", "B/s")
"""Rate at which fresh memory is filled with numbers; assumed."""
FIRST: Final[Mapping[str, int]] = {"fp8": 89}
"""Oldest architecture that has the arithmetic, where it is newer than the kernels' own."""
SPAN_S: Final = parse("200 µs", "s")
"""Least time between two events: they resolve half a microsecond, and between two graphs there is
a gap of about one."""
MILLISECOND: Final = parse("1 ms", "s")


class Graphs:
    """Captures launches and times their replay, on a stream of its own."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._events = cupy.cuda.Event(), cupy.cuda.Event()

    def captured(self, launches: Iterable[Launch]) -> Any:
        """Launches as one graph; whatever they compile or allocate once must have been before."""
        with self.stream:
            self.stream.synchronize()
            self.stream.begin_capture()
            try:
                for launch in launches:
                    launch()
            finally:
                graph = self.stream.end_capture()
        return graph

    def seconds(
        self, work: Callable[[], object], ahead: Callable[[], object] | None = None
    ) -> float:
        """Time between an event before and one after what `work` puts on the stream. [s]

        What is put `ahead` of the first event keeps the device at work while the host prepares
        the rest: an idle device would start late, and the event have passed before.
        """
        began, ended = self._events
        with self.stream:
            if ahead is not None:
                ahead()
            began.record(self.stream)
            work()
            ended.record(self.stream)
        ended.synchronize()
        return MILLISECOND * float(self._cupy.cuda.get_elapsed_time(began, ended))

    def replay(self, graph: Any) -> float:
        """Time of a graph that follows itself. [s]"""
        return self.seconds(lambda: graph.launch(self.stream), lambda: graph.launch(self.stream))


class CupyBackend(Struct, frozen=True):
    """Probes on a GPU; made by `backend`."""

    device: CudaDevice
    graphs: Graphs
    products: Products
    ranks: GpuRanks
    watch: Monitor
    memory_bytes: float
    devices: int = 1
    span_s: float = SPAN_S
    fill_bytes_per_s: float = FILL_BYTES_PER_S
    whole_rounds: bool = True
    replays: bool = True
    passes: int = 2
    shared: bool = False
    name: str = "cupy"

    @property
    def xp(self) -> Any:
        """CuPy."""
        return self.device.cupy

    @property
    def cache_bytes(self) -> float:
        """L2. [B]"""
        return self.device.sku.l2_bytes

    def refusal(self, point: ProbePoint) -> str:
        """Lack of the device, or of what is installed beside it, for a point."""
        probe = point.probe
        if self.device.sku.architecture < FIRST.get(probe.arithmetic, 0):
            return f"this device has no {probe.arithmetic} arithmetic"
        if self.device.sku.architecture < probe.architecture:
            return f"it needs compute capability {probe.architecture / 10:.1f}"
        if (wanted := probe.devices(point.at)) > self.devices:
            there = "there is 1" if self.devices == 1 else f"there are {self.devices}"
            return f"it takes {wanted} GPUs, {there}"
        if wanted > 1 and not available(self.xp):
            return "NCCL is not installed (pip install nvidia-nccl-cu13, or -cu12)"
        return missing(probe)

    def bind(self, probe: Probe, arguments: Mapping[str, Any]) -> Launch:
        """The probe's kernels, compiled and loaded; else its launch with CuPy."""
        if probe.kernels is None:
            return partial(probe.launch, self.xp, **arguments)
        calls = [self._prepared(call) for call in probe.kernels(self.device.sku, **arguments)]
        if len(calls) == 1:
            return calls[0]

        def run() -> None:
            for call in calls:
                call()

        return run

    def timer(self, launches: Sequence[Launch], *, captured: bool = True) -> Timer:
        """Times runs of these launches in rotation, whole rounds of them.

        As a graph, or with the gaps between launches of the host.

        Raises:
            CaptureError: When timed, where they are to be a graph and cannot be.
        """
        found: dict[int, Any] = {}

        def graph(rounds: int) -> Any:
            if rounds not in found:
                if not found:  # what is done once is done before the capture
                    with self.graphs.stream:
                        for launch in launches:
                            launch()
                try:
                    found[rounds] = self.graphs.captured(list(launches) * rounds)
                except RuntimeError as error:  # CuPy's cuBLAS, or a library that allocates
                    raise CaptureError(str(error)) from error
            return found[rounds]

        def mean(runs: int) -> float:
            rounds = math.ceil(runs / len(launches))
            count = rounds * len(launches)
            if captured:
                return self.graphs.replay(graph(rounds)) / count

            def every() -> None:
                for launch in list(launches) * rounds:
                    launch()

            return self.graphs.seconds(every, launches[-1]) / count

        return mean

    def synchronise(self) -> None:
        """Wait until everything launched is done."""
        self.xp.cuda.Device().synchronize()

    def recover(self) -> None:
        """Give memory that is not used back, and see whether the device answers."""
        self.xp.get_default_memory_pool().free_all_blocks()
        self.synchronise()
        self.graphs.seconds(lambda: None)

    def slowed(self) -> tuple[str, ...]:
        """Reasons of the driver for a lower clock."""
        return self.watch.slowed()

    def clocks(self) -> Mapping[str, float]:
        """Clocks in Hz, power in W, temperature in °C; without what the driver does not tell."""
        now = self.watch.clocks()
        told = {
            "sm_hz": now.sm_hz,
            "memory_hz": now.memory_hz,
            "power_w": now.power_w,
            "temperature_c": now.temperature_c,
            "others": float(self.watch.others()),
        }
        return {name: value for name, value in told.items() if math.isfinite(value)}

    def _prepared(self, call: Call) -> Callable[[], object]:
        if isinstance(call, Multiply):
            return self.products.prepared(call)
        if isinstance(call, Collective):
            return self.ranks.prepared(call)
        if isinstance(call, LibraryCall):
            return partial(call.run, self.xp)
        return self.device.prepared(call)


def backend(device: CudaDevice, products: Products, watch: Monitor) -> CupyBackend:
    """Probes on that device."""
    runtime = device.cupy.cuda.runtime
    free, _ = runtime.memGetInfo()
    return CupyBackend(
        device,
        Graphs(device.cupy),
        products,
        GpuRanks(device.cupy),
        watch,
        MEMORY_SHARE * free,
        runtime.getDeviceCount(),
    )
