"""Table of registers, shared memory, spills and occupancy of every kernel, as Markdown.

    python -m tests.microbench.occupancy

needs NVRTC (the extra ``gpu-ci``) and no GPU. Limits of a multiprocessor are those of the CUDA
programming guide, technical specifications by compute capability.
"""

import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from roofline.bench.gpu.attention import HEAD_DIMS, decode_attention, prefill_attention
from roofline.bench.gpu.compiling import compiled
from roofline.bench.gpu.kernels import quantise, rms_norm, rope, row_pass, silu_mul, w4a16_gemm
from roofline.bench.gpu.launch import WARP, Launch
from tests.microbench.test_compile import ARCHITECTURES, Resources, resources

REGISTERS: Final = 65536
"""Registers of a multiprocessor. [1]"""
GRAIN: Final = 8
"""Registers of a thread are handed out by so many. [1]"""
RESERVED_BYTES: Final = 1024
"""Shared memory that the system takes of each block. [B]"""


class Limits(NamedTuple):
    """Limits of a multiprocessor."""

    warps: int
    shared_bytes: int


LIMITS: Final = {
    80: Limits(64, 164 << 10),
    86: Limits(48, 100 << 10),
    89: Limits(48, 100 << 10),
    90: Limits(64, 228 << 10),
    100: Limits(64, 228 << 10),
    120: Limits(48, 100 << 10),
}


def launches(architecture: int) -> Iterator[tuple[str, Launch]]:
    """A launch of each kernel, with a word for its shape."""
    row = np.empty((1, 4096), np.uint16)
    for width in HEAD_DIMS:
        cache = np.empty((1, 16, 8, width), np.uint16)
        query = np.empty((1, 16, 32, width), np.uint16)
        (prefill,) = prefill_attention(
            query, cache, cache, query, element="bf16", architecture=architecture
        )
        yield f"heads of {width}", prefill
        for new, word in ((1, "one token"), (8, "8 tokens")):
            asked = np.empty((1, new, 32, width), np.uint16)
            table = np.empty((1, 1), np.int32)
            decode, *_ = decode_attention(
                *(asked, cache, cache, table, table, asked),
                element="bf16",
                architecture=architecture,
            )
            yield f"heads of {width}, {word}", decode
    yield "rows of 4096", rms_norm(row, row, row, element="bf16")[0]
    yield "rows of 4096", silu_mul(row, row, element="bf16")[0]
    yield "rows of 4096", row_pass("add_rows", row, row, row, element="bf16")[0]
    for of in ("fp8", "int8"):
        yield f"rows of 4096, {of}", quantise(row, row, row, of=of, element="bf16")[0]
    yield "heads of 128", rope(np.empty((1, 1, 128), np.uint16), row, row, element="bf16")[0]
    for tokens, wide in ((1, 4096), (16, 28672)):
        values, output = np.empty((tokens, 128), np.uint16), np.empty((tokens, wide), np.uint16)
        launch = w4a16_gemm(row, row, row, values, output, element="bf16", multiprocessors=132)
        yield f"{tokens} by {wide}", launch[0]


def blocks(launch: Launch, used: Resources, limits: Limits) -> int:
    """Blocks of a launch that a multiprocessor holds at once. [1]"""
    warps = launch.threads // WARP
    registers = -(-used.registers // GRAIN) * GRAIN * launch.threads
    shared = launch.shared_bytes + RESERVED_BYTES
    return min(limits.warps // warps, REGISTERS // registers, limits.shared_bytes // shared)


def table() -> str:
    """All kernels on all architectures."""
    head = ("kernel", "shape", "sm", "registers", "shared KiB", "spilled B", "blocks", "occupancy")
    lines = [f"| {' | '.join(head)} |", "|---|---|---:|---:|---:|---:|---:|---:|"]
    for architecture in ARCHITECTURES:
        limits = LIMITS[architecture]
        for shape, launch in launches(architecture):
            used = resources(compiled(launch.program, architecture).log)[launch.kernel]
            held = blocks(launch, used, limits)
            share = held * launch.threads // WARP / limits.warps
            cells = (launch.kernel, shape, f"{architecture}{'a' * (architecture == 90)}",
                     used.registers, f"{launch.shared_bytes / 1024:.1f}",
                     used.spill_bytes + used.stack_bytes, held, f"{share:.0%}")  # fmt: skip
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
