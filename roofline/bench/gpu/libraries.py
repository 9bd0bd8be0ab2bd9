"""Products by cuBLASLt and collectives by NCCL, put on CuPy's current stream.

What is made once for a shape is kept: descriptors, algorithm and workspace of a product,
communicators and room of a collective. All GPUs run from one process, so that collectives can be
captured: every GPU has a stream that forks off the one that is timed and joins it again. Inside a
graph that costs nothing; without one, small messages wait for the host to launch on each GPU.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from roofline.bench.gpu.cublaslt import (
    NOT_SUPPORTED,
    WORKSPACE_BYTES,
    LibraryError,
    LinearProduct,
    Pointer,
    handle,
)
from roofline.bench.gpu.device import address
from roofline.bench.gpu.launch import Collective, Multiply
from roofline.errors import InputError

WIDTH: Final = 2
"""Size of a number in half precision. [B]"""


class Products:
    """Products on the current device; made by `products`."""

    def __init__(self, cupy: Any, library: Pointer) -> None:
        self._cupy, self._library = cupy, library
        self._workspace = cupy.empty(WORKSPACE_BYTES, dtype=cupy.uint8)
        self._known: dict[tuple[Any, ...], LinearProduct] = {}

    def prepared(self, call: Multiply) -> Callable[[], object]:
        """A function that puts a product on CuPy's current stream.

        The first of the library's proposals is taken, as engines do.

        Raises:
            InputError: The library has no such product on this device.
        """
        scales = [int(address(array)) for array in call.scales or ()]
        product = self._product(call, scales)
        arrays = (call.values, call.weight, call.output, self._workspace)
        values, weight, output, workspace = (int(address(array)) for array in arrays)
        current = self._cupy.cuda.get_current_stream

        def run() -> None:
            try:
                if scales:
                    product.scale(*scales)
                product.run(self._library, values, weight, output, workspace, current().ptr)
            except LibraryError as error:
                raise _absent(call) if error.status == NOT_SUPPORTED else error from None

        return run

    def close(self) -> None:
        """Give all descriptors back."""
        for product in self._known.values():
            product.close()
        self._known = {}

    def _product(self, call: Multiply, scales: Sequence[int]) -> LinearProduct:
        key = (call.arithmetic, *call.shape)
        if key not in self._known:
            batch, m, n, k = call.shape
            product = LinearProduct(call.arithmetic, m, n, k, batch=batch)
            count = 0
            try:
                if scales:
                    product.scale(*scales)
                count = product.choose(self._library)
            finally:
                if not count:
                    product.close()
            if not count:
                raise _absent(call)
            self._known[key] = product
        return self._known[key]


def _absent(call: Multiply) -> InputError:
    _, m, n, k = call.shape
    return InputError(
        f"cuBLASLt has no {call.arithmetic} product of m = {m}, n = {n}, k = {k} here",
        hint="leave it out",
    )


@contextmanager
def products(cupy: Any) -> Iterator[Products]:
    """Products on the current device; everything is given back at the end.

    Raises:
        MissingEnvironmentError: cuBLASLt is not installed.
    """
    with handle() as library:
        found = Products(cupy, library)
        try:
            yield found
        finally:
            found.close()


def available(cupy: Any) -> bool:
    """True where CuPy finds NCCL."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(nccl.available)


@dataclass
class GpuRanks:
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
    elif call.operation == "all_to_all":
        each, part = count // call.ranks, call.payload // call.ranks
        for peer in range(call.ranks):
            communicator.send(sent + peer * part, each, kind, peer, stream)
            communicator.recv(got + peer * part, each, kind, peer, stream)
    elif rank == 0:
        communicator.send(sent, count, kind, 1, stream)
    elif rank == 1:
        communicator.recv(got, count, kind, 0, stream)
