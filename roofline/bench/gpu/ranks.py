"""Carries out collectives with NCCL, all GPUs from one process, so that they can be captured.

Every GPU has a stream that forks off the one that is timed and joins it again. Inside a graph that
costs nothing; without one, small messages wait for the host to launch on each GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from roofline.bench.gpu.calls import Collective

WIDTH: Final = 2
"""Of a number in half precision. [B]"""


def available(cupy: Any) -> bool:
    """Whether CuPy finds NCCL."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(nccl.available)


@dataclass
class Ranks:
    """The GPUs of this process; the current one is the first."""

    cupy: Any
    _communicators: dict[int, list[Any]] = field(default_factory=dict)
    _streams: dict[int, Any] = field(default_factory=dict)
    _events: dict[int, Any] = field(default_factory=dict)
    _room: dict[int, Any] = field(default_factory=dict)

    def prepared(self, call: Collective) -> Callable[[], object]:
        """A function that puts a collective behind what is on CuPy's current stream."""
        from cupy.cuda import nccl

        if call.ranks not in self._communicators:
            devices = list(range(call.ranks))
            self._communicators[call.ranks] = nccl.NcclCommunicator.initAll(devices)
        communicators = self._communicators[call.ranks]
        places = [self._place(rank, call.payload) for rank in range(call.ranks)]

        def run() -> None:
            timed, others = self.cupy.cuda.get_current_stream(), range(1, call.ranks)
            self._events[0].record(timed)
            for rank in others:
                self._streams[rank].wait_event(self._events[0])
            nccl.groupStart()
            for rank, (communicator, (sent, got)) in enumerate(
                zip(communicators, places, strict=True)
            ):
                with self.cupy.cuda.Device(rank):
                    stream = (self._streams[rank] if rank else timed).ptr
                    start(nccl, communicator, call, rank, sent, got, stream)
            nccl.groupEnd()
            for rank in others:
                with self.cupy.cuda.Device(rank):
                    self._events[rank].record(self._streams[rank])
                timed.wait_event(self._events[rank])

        return run

    def _place(self, rank: int, payload: int) -> tuple[int, int]:
        """Addresses of what a GPU sends and gets; as large as any call so far asked for."""
        with self.cupy.cuda.Device(rank):
            if rank not in self._streams:
                self._streams[rank] = self.cupy.cuda.Stream(non_blocking=True)
                self._events[rank] = self.cupy.cuda.Event(disable_timing=True)
            if rank not in self._room or self._room[rank].shape[1] < payload:
                self._room.pop(rank, None)  # given back before more is asked for
                self._room[rank] = self.cupy.zeros((2, payload), dtype=self.cupy.uint8)
            sent, got = self._room[rank]
            return int(sent.data.ptr), int(got.data.ptr)


def start(
    nccl: Any, communicator: Any, call: Collective, rank: int, sent: int, got: int, stream: int
) -> None:
    """Put one GPU's part of a collective on its stream."""
    count, kind = call.payload // WIDTH, nccl.NCCL_FLOAT16
    if call.operation == "all_reduce":
        communicator.allReduce(sent, got, count, kind, nccl.NCCL_SUM, stream)
    elif call.operation == "all_gather":
        communicator.allGather(sent, got, count // call.ranks, kind, stream)
    elif call.operation == "reduce_scatter":
        communicator.reduceScatter(sent, got, count // call.ranks, kind, nccl.NCCL_SUM, stream)
    elif rank == 0:
        communicator.send(sent, count, kind, 1, stream)
    elif rank == 1:
        communicator.recv(got, count, kind, 0, stream)
