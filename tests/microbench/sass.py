"""Instructions of machine code, by nvdisasm."""

import re
import subprocess
from collections import Counter
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

_SECTION: Final = re.compile(r"^\s*\.text\.(\w+):", re.MULTILINE)
_INSTRUCTION: Final = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")


def disassembler() -> Path:
    files = distribution("nvidia-cuda-nvdisasm").files or ()
    (found,) = (file for file in files if file.name in ("nvdisasm", "nvdisasm.exe"))
    return Path(str(found.locate()))


def instructions(cubin: bytes, folder: Path) -> dict[str, Counter[str]]:
    """Count of each instruction in each kernel."""
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    done = subprocess.run([disassembler(), "-c", path], capture_output=True, text=True, check=True)
    _, *parts = _SECTION.split(done.stdout)
    return {
        name: Counter(_INSTRUCTION.findall(text))
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def count(found: Counter[str], pattern: str) -> int:
    """Instructions whose name begins like that."""
    return sum(times for name, times in found.items() if re.match(pattern, name))
