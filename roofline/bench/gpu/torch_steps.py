"""Steps of a probe by PyTorch and what builds on it, on CuPy's arrays and stream."""

from collections.abc import Callable
from functools import cache
from typing import Any

from roofline.bench.gpu.launch import Step
from roofline.bench.gpu.torch_attention import on_stream


def step(library: str, function: Callable[..., object], *arrays: Any) -> Step:
    """Step that calls a function on PyTorch's views of some arrays.

    The views are made when it first runs: making one waits for a stream, as no capture can. Its
    result is kept until it runs again, so that runs which take turns write to places of their own.

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

    return Step(run)


def view(array: Any) -> Any:
    """PyTorch's view of an array, bfloat16 where it has 16 bits."""
    import torch

    found = torch.from_dlpack(array)
    return found.view(torch.bfloat16) if found.dtype == torch.uint16 else found
