"""A GPU as a place of a campaign: device, driver, libraries, product of the catalog."""

from collections.abc import Iterator
from contextlib import contextmanager

from roofline.bench.gpu import bandwidth, nvml
from roofline.bench.gpu.backend import backend
from roofline.bench.gpu.calm import look
from roofline.bench.gpu.compiling import OLDEST
from roofline.bench.gpu.device import describe, device
from roofline.bench.gpu.products import products
from roofline.bench.gpu.sku import recognised
from roofline.bench.place import Place
from roofline.bench.published import of_gpu
from roofline.errors import MissingEnvironmentError
from roofline.hardware.catalog import gpu


@contextmanager
def cupy_place(name: str = "", index: int = 0) -> Iterator[Place]:
    """That GPU, with all that measuring on it needs; everything is given back at the end.

    Parameters
    ----------
    name
        Whose published rates apply, a name or path; those of the product that it is, if empty.
    index
        Of the device, as CUDA counts.

    Raises
    ------
    MissingEnvironmentError
        There is no GPU, or something to reach it with is missing.
    UnknownNameError
        No product of the catalog is like it, or several are.
    """
    found = device(index)
    if found.sku.architecture < OLDEST:
        raise MissingEnvironmentError(
            f"the kernels need compute capability {OLDEST / 10:.1f}, this device has "
            f"{found.sku.architecture / 10:.1f}",
            hint="use an A100 or newer",
        )
    bus = found.cupy.cuda.Device(index).pci_bus_id
    with nvml.monitor(bus) as monitor, products(found.cupy) as multiplied:
        board = monitor.board()
        product = gpu(name) if name else recognised(found.sku, board)
        found.run(*bandwidth.nothing())  # whatever is missing to compile is missed now
        where = backend(found, multiplied, monitor)
        about = describe(found, board, product.name, name or product.name)
        link = monitor.link() if where.devices > 1 else ""
        yield Place(
            where,
            of_gpu(product, name or product.name, link, where.devices),
            {**about, **({"link": link, "devices": str(where.devices)} if link else {})},
            lambda: look(found, where.graphs, monitor),
            f"{board.title} as {product.name}",
        )
