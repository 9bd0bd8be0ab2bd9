"""A GPU as a place of a campaign: device, driver, libraries, product of the catalog."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.bench.backend import ProbePlace
from roofline.bench.gpu import nvml
from roofline.bench.gpu.backend import Graphs, backend
from roofline.bench.gpu.compiling import OLDEST
from roofline.bench.gpu.device import CudaDevice, describe, device
from roofline.bench.gpu.kernels import nothing, stream
from roofline.bench.gpu.libraries import products
from roofline.bench.gpu.nvml import Clocks, Monitor
from roofline.bench.gpu.sku import recognised
from roofline.bench.published import of_gpu
from roofline.errors import MissingEnvironmentError
from roofline.hardware.catalog import gpu
from roofline.units import parse, show

SECONDS: Final = 1.0
"""Time for which memory is copied, in which a GPU also raises its clock. [s]"""
BLOCKS: Final = 8
"""Blocks of copies that are compared; as many before them warm up. [1]"""
BEYOND: Final = 2.0
"""Size of the copied array over that of the last-level cache. [1]"""
SPREAD: Final = 0.03
"""Largest difference between blocks of equal copies where times can be trusted. [1]"""
SPAN_S: Final = parse("1 ms", "s")
"""Time of one graph of copies, about. [s]"""
REPLAYS: Final = 2.0
"""Runs of a graph in a sample: one to warm up, one that is timed. [1]"""


class Calm(Struct, frozen=True):
    """Disturbances of a GPU: what makes equal pieces of work take unequal times on it."""

    spread: float
    """Widest difference between the medians of blocks of equal copies, as a share. [1]"""
    others: int
    """Other processes that compute on it. [1]"""
    clocks: Clocks
    """Clocks after the last copy, and why they are held down."""

    @property
    def lost(self) -> float:
        """Share of the time in which other processes had the device: unknown, taken as 0. [1]"""
        return 0.0

    @property
    def calm(self) -> bool:
        """True where times can be trusted to a few percent."""
        return self.spread <= SPREAD and not self.others

    def __str__(self) -> str:
        """Spread of equal copies, other processes and clock, in words."""
        now = self.clocks
        held = f", held down: {', '.join(now.slowed)}" if now.slowed else ""
        held += f", limited by its settings: {', '.join(now.limited)}" if now.limited else ""
        held += "" if now.told else "; the driver does not tell when it holds the clock down"
        company = "alone" if not self.others else f"beside {self.others} other process(es)"
        return (
            f"equal copies differed by {self.spread:.1%} (calm: {SPREAD:.0%}), {company}, "
            f"at {show(now.sm_hz, 'Hz')}{held}"
        )


def look(device: CudaDevice, graphs: Graphs, monitor: Monitor, seconds: float = SECONDS) -> Calm:
    """Calm of a GPU on which memory is copied for some seconds, block by block, by its own clock.

    The first half only warms up.
    """
    cupy, words = device.cupy, int(BEYOND * device.sku.l2_bytes) // 16 * 4
    arrays = cupy.ones((2, words), dtype=cupy.uint32)
    copy = stream("copy_stream", arrays[0], arrays[1], device.sku.multiprocessors)
    device.run(*copy)
    cupy.cuda.Device().synchronize()
    once = graphs.replay(graphs.captured([lambda: device.run(*copy)]))
    graph = graphs.captured([lambda: device.run(*copy)] * max(1, round(SPAN_S / once)))
    blocks = []
    for _ in range(2 * BLOCKS):
        samples, spent = [graphs.replay(graph)], 0.0
        while spent < seconds / (2 * BLOCKS):
            samples.append(graphs.replay(graph))
            spent += REPLAYS * samples[-1]
        blocks.append(float(np.median(samples)))
    clocks = monitor.clocks()
    spread = max(blocks[BLOCKS:]) / min(blocks[BLOCKS:]) - 1.0
    return Calm(spread, monitor.others(), clocks)


@contextmanager
def cupy_place(name: str = "") -> Iterator[ProbePlace]:
    """A GPU with all that measuring on it needs; everything is given back at the end.

    Published rates are those of a GPU by name or path; of the product that it is, if that is empty.

    Raises:
        MissingEnvironmentError: There is no GPU, or something to reach it with is missing.
        UnknownNameError: No product of the catalog is like it, or several are.
    """
    found = device()
    if found.sku.architecture < OLDEST:
        raise MissingEnvironmentError(
            f"the kernels need compute capability {OLDEST / 10:.1f}, this device has "
            f"{found.sku.architecture / 10:.1f}",
            hint="use an A100 or newer",
        )
    bus = found.cupy.cuda.Device().pci_bus_id
    with nvml.monitor(bus) as monitor, products(found.cupy) as multiplied:
        board = monitor.board()
        product = gpu(name) if name else recognised(found.sku, board)
        found.run(*nothing())  # fails here, not later, if kernels cannot be compiled
        where = backend(found, multiplied, monitor)
        about = describe(found, board, product.name, name or product.name)
        link = monitor.link() if where.devices > 1 else ""
        yield ProbePlace(
            where,
            of_gpu(product, name or product.name, link, where.devices),
            {**about, **({"link": link, "devices": str(where.devices)} if link else {})},
            lambda: look(found, where.graphs, monitor),
            f"{board.title} as {product.name}",
        )
