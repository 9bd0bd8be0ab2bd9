"""Steps of a probe in PyTorch or a library built on it, on CuPy's arrays and stream."""

from collections.abc import Callable
from functools import cache
from typing import Any

from roofline.bench.gpu.launch import LibraryCall
from roofline.bench.gpu.torch_attention import on_stream


def step(library: str, function: Callable[..., object], *arrays: Any) -> LibraryCall:
    """Step that calls a function on PyTorch's views of some arrays.

    The views are made when it first runs, since making one waits for a stream, which is not allowed
    while a graph is captured. The result is kept until the next run, so that two steps which take
    turns never write to the same memory.

    Args:
        library: Name for errors.
        function: Puts its work on PyTorch's current stream.
        arrays: Of CuPy, handed to the function in this order.
    """
    kept: list[object] = []

    @cache
    def views() -> list[Any]:
        return [view(array) for array in arrays]

    def run(xp: Any) -> None:
        import torch

        with on_stream(xp, library), torch.no_grad():
            kept[:] = [function(*views())]

    return LibraryCall(run)


def view(array: Any) -> Any:
    """PyTorch's view of an array, bfloat16 where it has 16 bits."""
    import torch

    found = torch.from_dlpack(array)
    return found.view(torch.bfloat16) if found.dtype == torch.uint16 else found
