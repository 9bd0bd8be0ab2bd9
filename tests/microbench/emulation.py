"""Runs the CUDA sources on a CPU: built by g++ with the emulator in place of `device.cuh`."""

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from roofline.bench.gpu.launch import Launch, Program, sources
from tests.cases import cases

EMULATOR: Final = Path(__file__).parent / "emulator"
"""Headers that take the place of those of the same name."""
SCHEDULES: Final = (0, 3)
"""First warp first and copies as late as allowed; last warp first and copies at once."""
OPTIONS: Final = (
    "-std=c++17",
    "-O1",
    "-w",
    "-shared",
    "-fPIC",
    "-U_FORTIFY_SOURCE",
    "-fno-stack-protector",
)


def schedules_of(name: str, names: Iterable[str]) -> Iterable[int]:
    """Schedules under which a case runs: one of them in turn, each where all cases run."""
    place = [*names].index(name) % len(SCHEDULES)
    return cases(SCHEDULES[place : place + 1], SCHEDULES)


def compiler() -> str | None:
    return shutil.which("g++")


class KernelError(Exception):
    """Fault of a kernel that no GPU allows."""


class Region(ctypes.Structure):
    _fields_ = (("first", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


@dataclass
class Emulator:
    """A runner of launches; `edits` changes a source before it is built."""

    folder: Path
    schedule: int = 0
    edits: dict[str, tuple[str, str]] = field(default_factory=dict)
    loaded: dict[Program, ctypes.CDLL] = field(default_factory=dict)

    def run(self, *launches: Launch) -> None:
        for launch in launches:
            if launch.program not in self.loaded:
                self.loaded[launch.program] = ctypes.CDLL(str(self.built(launch.program)))
            function = getattr(self.loaded[launch.program], f"launch_{launch.kernel}")
            function.restype = ctypes.c_char_p
            arrays = [value for value in launch.arguments if isinstance(value, np.ndarray)]
            regions = (Region * len(arrays))(*(Region(a.ctypes.data, a.nbytes) for a in arrays))
            slots = [_slot(value) for value in launch.arguments]
            pointers = (ctypes.c_void_p * len(slots))(*(slot.ctypes.data for slot in slots))
            error = function(
                (ctypes.c_uint * 3)(*launch.grid),
                ctypes.c_uint(launch.threads),
                ctypes.c_size_t(launch.shared_bytes),
                ctypes.c_int(self.schedule),
                regions,
                ctypes.c_uint(len(arrays)),
                pointers,
            )
            if error:
                raise KernelError(f"{launch.kernel}: {error.decode()}")

    def built(self, program: Program) -> Path:
        """Shared library of a program, built once."""
        key = hashlib.sha256(repr((program, sorted(self.edits.items()))).encode()).hexdigest()[:12]
        library = self.folder / f"{program.source}-{key}.so"
        if not library.exists():
            place = Path(tempfile.mkdtemp(dir=self.folder))  # others may build the same
            self._write(place, program)
            headers = ["-include", str(self._headers())]
            _translated(place, [*program.options(), *headers, "-o", library.name, "all.cpp"])
            (place / library.name).rename(library)
        return library

    def _headers(self) -> Path:
        """Standard headers of the emulator, which take the compiler longest: translated once."""
        header = self.folder / "standard.h"
        if not header.exists():
            place = Path(tempfile.mkdtemp(dir=self.folder))
            text = (EMULATOR / "device.cuh").read_text(encoding="utf-8")
            includes = "\n".join(re.findall(r"^#include <.*>$", text, re.MULTILINE))
            (place / header.name).write_text(f"{includes}\n", encoding="utf-8")
            _translated(place, ["-x", "c++-header", header.name, "-o", f"{header.name}.gch"])
            for made in (f"{header.name}.gch", header.name):
                (place / made).rename(self.folder / made)
        return header

    def _write(self, place: Path, program: Program) -> None:
        code = sources()
        for name, (old, new) in self.edits.items():
            if code[name].count(old) != 1:
                raise LookupError(f"{old!r} is {code[name].count(old)} times in {name}")
            code[name] = code[name].replace(old, new)
        for name in code:
            if name.endswith(".cuh"):
                (place / name).write_text(code[name], encoding="utf-8")
        for header in EMULATOR.iterdir():
            shutil.copy(header, place)
        text = code[f"{program.source}.cu"]
        exports = "\n".join(f"EXPORT({name})" for name in kernels(text))
        (place / "all.cpp").write_text(f"{text}\n{exports}\n", encoding="utf-8")


def _translated(place: Path, arguments: list[str]) -> None:
    """Run the compiler in a folder."""
    command = [compiler() or "g++", *OPTIONS, *arguments]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)


def kernels(text: str) -> list[str]:
    """Names of the kernels of a source."""
    return re.findall(r"^KERNEL\([^)]*\)\s+(\w+)\(", text, re.MULTILINE)


def _slot(value: Any) -> np.ndarray[Any, Any]:
    """An argument where the launch can point to it: an array is its address."""
    if isinstance(value, np.ndarray):
        return np.array([value.ctypes.data], np.uintp)
    return np.array([value])
