"""Attention by PyTorch where it is installed, on CuPy's arrays and stream, for contrast."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from roofline.bench.gpu.shapes import HEADS
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.attention import attention
from roofline.cost.work import Work
from roofline.errors import InputError

WIDTH: Final = 2
COUNTS: Final = (1, 4)
LENGTHS: Final = (256, 512, 1024, 2048, 4096, 8192, 16384)
"""New tokens, from empty: PyTorch aligns its causal mask with the first key, not the last."""


def sdpa(name: str, kernel: str) -> Probe:
    """Probe of ``scaled_dot_product_attention`` with one of its kernels.

    Parameters
    ----------
    name
        As its file is called.
    kernel
        A member of ``torch.nn.attention.SDPBackend``.
    """
    return Probe(
        name=name,
        version=1,
        kind="prefill-attention",
        axes={"count": COUNTS, "heads kv_heads head_dim": HEADS, "tokens": LENGTHS},
        arguments=arguments,
        launch=launcher(kernel),
        work=work,
        arithmetic="bf16",
        provider="torch",
        backends=("cupy",),
        needs=("torch",),
        form="prefill",
    )


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Queries, keys and values by token."""
    count, tokens, width = at["count"], at["tokens"], at["head_dim"]
    return {
        "query": make.normal(count, tokens, at["heads"], width, of="bf16"),
        "keys": make.normal(count, tokens, at["kv_heads"], width, of="bf16"),
        "values": make.normal(count, tokens, at["kv_heads"], width, of="bf16"),
    }


def launcher(kernel: str) -> Callable[..., object]:
    """Launch that lets PyTorch take that kernel alone; it makes room for the result itself."""

    def launch(xp: Any, query: Any, keys: Any, values: Any) -> None:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        heads = [tensor(Borrowed(array)) for array in (query, keys, values)]
        current = xp.cuda.get_current_stream()
        stream = torch.cuda.ExternalStream(current.ptr)
        try:
            with torch.cuda.stream(stream), sdpa_kernel(getattr(SDPBackend, kernel)):
                torch.nn.functional.scaled_dot_product_attention(
                    *heads, is_causal=True, enable_gqa=query.shape[2] != keys.shape[2]
                )
        except RuntimeError as error:
            if current.is_capturing():  # it may do what no capture can, and be timed without one
                raise
            reason = (str(error).splitlines() or ["it does not say why"])[0]
            raise InputError(
                f"PyTorch does not serve it with {kernel}: {reason}", hint="leave it out"
            ) from None

    return launch


class Borrowed:
    """An array of CuPy, known by where it lies and its extents."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self._key = int(array.data.ptr), array.shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Borrowed) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=6)
def tensor(borrowed: Borrowed) -> Any:
    """PyTorch's view of bfloat16 by head. Kept: making it waits for a stream, as no capture can."""
    import torch

    return torch.from_dlpack(borrowed.array).view(torch.bfloat16).transpose(1, 2)


def work(at: Shape) -> Work:
    """As the cost model counts it: what a causal kernel does."""
    return attention(
        at["count"],
        at["tokens"],
        at["tokens"],
        heads=at["heads"],
        kv_heads=at["kv_heads"],
        head_dim=at["head_dim"],
        width=WIDTH,
        kv_width=WIDTH,
    )
