"""Attention by PyTorch and FlashAttention where they are installed, on CuPy's arrays and stream."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.elements import bf16
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.attention import attention
from roofline.cost.work import Work
from roofline.errors import InputError

HEADS: Final = (
    (32, 8, 128),  # Llama 3.1 8B
    (64, 8, 128),  # Llama 3.1 70B
    (8, 1, 128),  # the same on one of eight devices
    (28, 4, 128),  # Qwen2.5 7B
    (32, 32, 128),  # Llama 2 7B
    (32, 8, 64),  # Llama 3.2 1B
)
"""Query heads, key heads and their width."""
STRIDE: Final = 7919
"""A prime: pages that follow one another in a sequence are far apart in memory."""
THETA: Final = 10_000.0
"""Base of the rotary angles."""


def pages(sequences: int, each: int) -> NDArray[np.int32]:
    """Page of each part of each sequence, [sequences, each]: all of them, in no order.

    >>> sorted(pages(2, 3).ravel().tolist())
    [0, 1, 2, 3, 4, 5]
    """
    count = sequences * each
    step = STRIDE if count % STRIDE else 1
    order = np.arange(count, dtype=np.int64) * step % count
    return order.astype(np.int32).reshape(sequences, each)


def same(count: int, value: int) -> NDArray[np.int32]:
    """One number, many times."""
    return np.full(count, value, np.int32)


def positions(count: int, table: int) -> NDArray[np.int32]:
    """Positions of tokens that follow one another, as far as the table goes."""
    return (np.arange(count) % table).astype(np.int32)


def angles(table: int, head_dim: int) -> NDArray[np.uint16]:
    """Cosines, then sines, of each position in bfloat16: [table, head width]."""
    turn = np.outer(np.arange(table), THETA ** -np.linspace(0.0, 1.0, head_dim // 2))
    both = np.concatenate([np.cos(turn), np.sin(turn)], axis=1)
    return bf16(np.ascontiguousarray(both, dtype=np.float32))


WIDTH: Final = 2
COUNTS: Final = (1, 4)
LENGTHS: Final = (256, 512, 1024, 2048, 4096, 8192, 16384)
"""New tokens, from empty: PyTorch aligns its causal mask with the first key, not the last."""


def sdpa(name: str, kernel: str) -> Probe:
    """Probe of ``scaled_dot_product_attention`` with one of its kernels.

    Args:
        name: As its file is called.
        kernel: A member of ``torch.nn.attention.SDPBackend``.
    """
    return _probe(name, launcher(kernel), ("torch",))


def flash_attention(name: str) -> Probe:
    """Probe of FlashAttention 3 by its own package."""
    return _probe(name, flash_attention_launch, ("torch", "flash_attn_interface"))


def _probe(name: str, launch: Callable[..., object], needs: tuple[str, ...]) -> Probe:
    """Probe of prompts by a library on top of PyTorch."""
    return Probe(
        name=name,
        version=1,
        kind="prefill-attention",
        axes={"count": COUNTS, "heads kv_heads head_dim": HEADS, "tokens": LENGTHS},
        arguments=arguments,
        launch=launch,
        work=work,
        arithmetic="bf16",
        provider="torch",
        backends=("cupy",),
        needs=needs,
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

        heads = [tensor(BorrowedArray(array)) for array in (query, keys, values)]
        with on_stream(xp, kernel), sdpa_kernel(getattr(SDPBackend, kernel)):
            torch.nn.functional.scaled_dot_product_attention(
                *heads, is_causal=True, enable_gqa=query.shape[2] != keys.shape[2]
            )

    return launch


@contextmanager
def on_stream(xp: Any, kernel: str) -> Iterator[None]:
    """PyTorch on CuPy's current stream.

    Raises:
        InputError: PyTorch has no such kernel for what is asked of it.
    """
    import torch

    current = xp.cuda.get_current_stream()
    try:
        with torch.cuda.stream(torch.cuda.ExternalStream(current.ptr)):
            yield
    except (RuntimeError, AttributeError) as error:
        if current.is_capturing():  # it may do what no capture can, and be timed without one
            raise
        reason = (str(error).splitlines() or ["it does not say why"])[0]
        raise InputError(
            f"PyTorch does not serve it with {kernel}: {reason}", hint="leave it out"
        ) from error


def flash_attention_launch(xp: Any, query: Any, keys: Any, values: Any) -> None:
    """Causal attention by token, as the package takes it; it makes room for the result itself."""
    import torch
    from flash_attn_interface import flash_attn_func

    by_token = [tensor(BorrowedArray(array)).transpose(1, 2) for array in (query, keys, values)]
    with torch.cuda.stream(torch.cuda.ExternalStream(xp.cuda.get_current_stream().ptr)):
        flash_attn_func(*by_token, causal=True)


class BorrowedArray:
    """An array of CuPy, known by where it lies and its extents."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self._key = int(array.data.ptr), array.shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BorrowedArray) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=6)
def tensor(borrowed: BorrowedArray) -> Any:
    """PyTorch's view of bfloat16 by head. Kept: making it waits for a stream, as no capture can."""
    import torch

    return torch.from_dlpack(borrowed.array).view(torch.bfloat16).transpose(1, 2)


def work(at: Shape) -> Work:
    """Work as the cost model counts it for a causal kernel."""
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
