"""Every kernel compiles for every architecture, keeps to its registers, and uses the hardware."""

import importlib.util
import os
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, Final

import pytest

from roofline.bench.gpu.attention import HOPPER
from roofline.bench.gpu.compiling import compiled
from roofline.bench.gpu.launch import Program, sources
from tests.cases import ALL, cases
from tests.microbench import programs
from tests.microbench.emulation import kernels
from tests.microbench.sass import count, disassembler, instructions

ARCHITECTURES = cases((80, 90, 100), (80, 86, 89, 90, 100, 120))
"""A100, H100 and H200, B200; with A10, L40S and desktop Blackwell, which are compiled alike."""
WITH_FP8: Final = 89
LOG = """
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
ptxas         .     8 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
"""


_ENTRY: Final = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS: Final = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_REGISTERS: Final = re.compile(r"Used (\d+) registers")


def compiling(some: list[Program]) -> list[Any]:
    """Programs, each with an architecture.

    Programs in float16 differ from those in bfloat16 by a conversion: they are compiled for one
    architecture, and for all where all cases run.
    """
    return [
        pytest.param(program, architecture, id=f"{programs.label(program)}-{architecture}")
        for program in dict.fromkeys(some)
        for architecture in ARCHITECTURES
        if ALL or architecture == HOPPER or not dict(program.constants).get("ELEMENT_FP16")
    ]


COMPUTING: Final = [
    each
    for each in compiling(programs.attention())
    if each.values[1] >= WITH_FP8 or "CACHE_FP8" not in dict(each.values[0].constants)
]
"""Attention and architectures that have its number types."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Registers and memory of a thread of a kernel.

    Args:
        registers: Of 4 bytes. [1]
        stack_bytes: Local memory. [B]
        spill_bytes: Stores and loads of what did not fit into registers. [B]
    """

    registers: int
    stack_bytes: int
    spill_bytes: int


def resources(log: str) -> dict[str, Resources]:
    """Registers and local memory of each kernel, from the log of the assembler."""
    _, *parts = _ENTRY.split(log)
    out = {}
    for name, said in zip(parts[::2], parts[1::2], strict=True):
        spills, registers = _SPILLS.search(said), _REGISTERS.search(said)
        if spills and registers:
            stack, stores, loads = (int(value) for value in spills.groups())
            out[name] = Resources(int(registers[1]), stack, stores + loads)
    return out


@pytest.fixture(scope="module")
def compiler() -> None:
    """NVRTC and nvdisasm: a must where ROOFLINE_CUDA says so, else a loud skip."""
    missing = [name for name in ("cupy",) if importlib.util.find_spec(name) is None]
    try:
        disassembler()
    except PackageNotFoundError as error:
        missing.append(str(error))
    if missing and os.environ.get("ROOFLINE_CUDA") == "required":
        pytest.fail(f"{missing} not installed (ROOFLINE_CUDA=required)")
    if missing:
        pytest.skip(f"{missing} not installed: the kernels were NOT compiled; see [gpu-ci]")


def test_the_log_is_read() -> None:
    assert resources(LOG) == {"first": Resources(255, 8, 16), "second": Resources(4, 0, 0)}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("program", "architecture"), compiling([*programs.attention(), *programs.others()])
)
def test_kernels_fit_into_registers(program: Program, architecture: int) -> None:
    found = resources(compiled(program, architecture).log)
    assert sorted(found) == sorted(kernels(sources()[f"{program.source}.cu"]))
    assert {
        name: used for name, used in found.items() if used.spill_bytes or used.stack_bytes
    } == {}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("program", "architecture"), COMPUTING)
def test_attention_uses_tensor_cores_and_asynchronous_copies(
    program: Program, architecture: int, tmp_path: Path
) -> None:
    found = instructions(compiled(program, architecture).cubin, tmp_path)[program.source]
    assert count(found, r"HMMA\.16816\.F32") > 0
    assert count(found, r"LDSM\.16\.M88\.4") > 0
    assert count(found, r"LDSM\.16\.MT88\.4") > 0
    assert count(found, r"LDGSTS\.E\..*128$") > 0
    assert count(found, r"LDGSTS") == count(found, r"LDGSTS\.E\..*128$")
    assert count(found, r"LDL|STL") == 0


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("program", programs.prefills(HOPPER), ids=programs.label)
def test_products_of_warpgroups_are_under_way_together(program: Program, tmp_path: Path) -> None:
    built = compiled(program, HOPPER)
    assert "serialized" not in built.log  # as the assembler says where it waits for each
    used = resources(built.log)[program.source]
    assert used.registers <= 255
    assert (used.spill_bytes, used.stack_bytes) == (0, 0)
    found = instructions(built.cubin, tmp_path)[program.source]
    assert count(found, r"HGMMA\.64x\d+x16\.F32") == count(found, r"HGMMA") > 0
    assert count(found, r"HMMA|LDL|STL") == 0
    assert count(found, r"LDGSTS") == count(found, r"LDGSTS\.E\..*128$") > 0
    # Of scores, of scores and of output, of output at the end, and where the output is rescaled.
    assert count(found, r"WARPGROUP\.DEPBAR") == 5
