"""From CUDA source to machine code with NVRTC: no toolkit and no device is needed.

Machine code rather than PTX: a driver older than the compiler cannot translate its PTX.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from roofline.bench.gpu.environment import require_cupy
from roofline.bench.gpu.launch import Program, sources
from roofline.errors import MissingEnvironmentError

OLDEST: Final = 80
"""Oldest architecture with asynchronous copies and bfloat16: compute capability 8.0."""
_ENTRY: Final = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS: Final = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_REGISTERS: Final = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True, slots=True)
class Resources:
    """What a thread of a kernel takes.

    Args:
        registers: Of 4 bytes. [1]
        stack_bytes: Local memory. [B]
        spill_bytes: Stores and loads of what did not fit into registers. [B]
    """

    registers: int
    stack_bytes: int
    spill_bytes: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code of a program, and the resources of its kernels."""

    cubin: bytes
    kernels: Mapping[str, Resources]


@cache
def compiled(program: Program, architecture: int) -> Compiled:
    """Compile a program, once per process.

    Args:
        program: What to compile.
        architecture: Ten times the compute capability: 90 for an H100. [1]

    Raises:
        MissingEnvironmentError: If there is no CuPy with NVRTC, or it does not know the
            architecture.
    """
    nvrtc = _require_nvrtc()
    code = sources()
    headers = [name for name in code if name.endswith(".cuh")]
    if architecture < OLDEST or architecture not in nvrtc.getSupportedArchs():
        raise MissingEnvironmentError(
            f"kernels cannot be compiled for compute capability {architecture / 10:.1f}",
            hint="use a device of capability 8.0 or newer, and a CuPy that knows it",
        )
    handle = nvrtc.createProgram(
        code[f"{program.source}.cu"],
        f"{program.source}.cu",
        [code[name].encode() for name in headers],
        [name.encode() for name in headers],
    )
    options = ["-std=c++17", f"-arch=sm_{architecture}", "--ptxas-options=-v"]
    try:
        nvrtc.compileProgram(handle, (*options, *program.options()))
        # CuPy takes the last byte for the end of a text.
        return Compiled(nvrtc.getCUBIN(handle) + b"\0", resources(nvrtc.getProgramLog(handle)))
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"{program}: {nvrtc.getProgramLog(handle)}") from error
    finally:
        nvrtc.destroyProgram(handle)


def _require_nvrtc() -> Any:
    require_cupy()
    from cupy.cuda import nvrtc

    try:
        nvrtc.getVersion()
    except (RuntimeError, ImportError):
        raise MissingEnvironmentError(
            "NVRTC, which compiles the kernels, is not installed",
            hint="pip install nvidia-cuda-nvrtc of CuPy's CUDA version, or the CUDA toolkit",
        ) from None
    return nvrtc


def resources(log: str) -> dict[str, Resources]:
    """What the assembler says of each kernel, by name."""
    _, *parts = _ENTRY.split(log)
    out = {}
    for name, said in zip(parts[::2], parts[1::2], strict=True):
        spills, registers = _SPILLS.search(said), _REGISTERS.search(said)
        if spills and registers:
            stack, stores, loads = (int(value) for value in spills.groups())
            out[name] = Resources(int(registers[1]), stack, stores + loads)
    return out
