"""Compiler of CUDA sources to machine code, NVRTC: no toolkit and no device is needed.

Machine code rather than PTX: a driver older than the compiler cannot translate its PTX.
"""

from functools import cache
from typing import Any, Final

from msgspec import Struct

from roofline.bench.gpu.attention import HOPPER
from roofline.bench.gpu.environment import require_cupy
from roofline.bench.gpu.launch import Program, sources
from roofline.errors import MissingEnvironmentError

OLDEST: Final = 80
"""Oldest architecture with asynchronous copies and bfloat16: compute capability 8.0."""


class CompiledProgram(Struct, frozen=True):
    """Machine code of a program, and what the assembler printed about its kernels."""

    cubin: bytes
    log: str


@cache
def compiled(program: Program, architecture: int) -> CompiledProgram:
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
    own = "a" if architecture == HOPPER else ""  # what no other architecture has, wgmma
    options = ["-std=c++17", f"-arch=sm_{architecture}{own}", "--ptxas-options=-v"]
    try:
        nvrtc.compileProgram(handle, (*options, *program.options()))
        # CuPy takes the last byte for the end of a text.
        return CompiledProgram(nvrtc.getCUBIN(handle) + b"\0", nvrtc.getProgramLog(handle))
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
