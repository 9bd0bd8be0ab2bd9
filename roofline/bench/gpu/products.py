"""Carries out products: descriptors, algorithm and workspace are made once for a shape."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from roofline.bench.gpu.calls import Multiply
from roofline.bench.gpu.cublaslt import (
    NOT_SUPPORTED,
    WORKSPACE_BYTES,
    LibraryError,
    Pointer,
    Product,
    handle,
)
from roofline.bench.gpu.device import address
from roofline.errors import InputError


class Products:
    """Products on the current device; made by `products`."""

    def __init__(self, cupy: Any, library: Pointer) -> None:
        self._cupy, self._library = cupy, library
        self._workspace = cupy.empty(WORKSPACE_BYTES, dtype=cupy.uint8)
        self._known: dict[tuple[Any, ...], Product] = {}

    def prepared(self, call: Multiply) -> Callable[[], object]:
        """A function that puts a product on CuPy's current stream.

        The first of the library's proposals is taken, as engines do.

        Raises:
            InputError: The library has no such product on this device.
        """
        product = self._product(call)
        arrays = (call.values, call.weight, call.output, self._workspace)
        values, weight, output, workspace = (address(array) for array in arrays)
        current = self._cupy.cuda.get_current_stream

        def run() -> None:
            try:
                product.run(self._library, values, weight, output, workspace, current().ptr)
            except LibraryError as error:
                raise _absent(call) if error.status == NOT_SUPPORTED else error from None

        return run

    def close(self) -> None:
        """Give all descriptors back."""
        for product in self._known.values():
            product.close()
        self._known = {}

    def _product(self, call: Multiply) -> Product:
        key = (call.arithmetic, *call.shape)
        if key not in self._known:
            batch, m, n, k = call.shape
            product = Product(call.arithmetic, m, n, k, batch=batch)
            count = 0
            try:
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
