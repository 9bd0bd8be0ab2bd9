"""Launches that read and copy memory, and one that does nothing."""

from math import prod
from typing import Final

import numpy as np

from roofline.bench.gpu.launch import WARP, Array, Launch, program

THREADS: Final = 512
BLOCKS: Final = 4
"""Blocks per multiprocessor: all threads that it holds."""
_PROGRAM: Final = program("bandwidth", "bf16", {"THREADS": THREADS})


def nothing() -> tuple[Launch, ...]:
    """Launch of a kernel without instructions: what is left is the launch."""
    return (Launch(_PROGRAM, "nothing", (1, 1, 1), WARP, 0, ()),)


def read(values: Array, sink: Array, multiprocessors: int) -> tuple[Launch, ...]:
    """Launch that reads uint32 words, a multiple of four, and writes none of them."""
    return (_launch("read_stream", multiprocessors, values, sink, _chunks(values)),)


def copy(values: Array, output: Array, multiprocessors: int) -> tuple[Launch, ...]:
    """Launch that copies uint32 words, a multiple of four: each is read and written."""
    return (_launch("copy_stream", multiprocessors, values, output, _chunks(values)),)


def _launch(kernel: str, multiprocessors: int, *arguments: object) -> Launch:
    return Launch(_PROGRAM, kernel, (BLOCKS * multiprocessors, 1, 1), THREADS, 0, arguments)


def _chunks(words: Array) -> np.int64:
    return np.int64(prod(words.shape) // 4)
