"""Which processor this is: cores, caches and memory, as the operating system tells them."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roofline.cost.kernels.form import Machine
from roofline.hardware.catalog import gpu
from roofline.hardware.machine import Gpu
from roofline.study.executors import cores
from roofline.units import PREFIX

GENERIC: Final = "cpu-generic"
"""Whose figures stand in for a datasheet: operating systems do not tell rates."""
CACHE_BYTES: Final = 32 * PREFIX["Mi"]
MEMORY_BYTES: Final = 4 * PREFIX["Gi"]
"""Where the operating system does not say."""

_CPU: Final = Path("/proc/cpuinfo")
_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Processor:
    """Processor of this machine."""

    title: str
    """What it calls itself."""
    cores: int
    """That this process may use. [1]"""
    cache_bytes: float
    """Last-level cache. [B]"""
    memory_bytes: float
    """Of the machine, free or not. [B]"""

    @property
    def name(self) -> str:
        """Name for files: ``"amd-epyc-2-cores"``."""
        plain = re.sub(r"\([^)]*\)|@.*|\b(cpu|processor|core)\b", " ", self.title.lower())
        words = re.findall(r"[a-z0-9]+", plain)
        return "-".join([*words[:6], str(self.cores), "cores"])


def detect() -> Processor:
    """Processor of this machine."""
    return Processor(_title(), cores(), _cache(), _memory())


def datasheet() -> Gpu:
    """Published figures that stand in for those of this processor."""
    return gpu(GENERIC)


def machine(processor: Processor, threads: int) -> Machine:
    """What forms need: the arithmetic of as many generic cores, the memory of a whole socket.

    Args:
        processor: For its cache.
        threads: Cores that compute. [1]
    """
    generic = datasheet()
    return Machine(
        flops_per_s=generic.rate("fp32") * threads / generic.multiprocessors,
        hbm_bytes_per_s=generic.hbm_bytes_per_s,
        l2_bytes=processor.cache_bytes,
        l2_bytes_per_s=generic.l2_bytes_per_s,
        multiprocessors=float(threads),
    )


def _title() -> str:
    if _CPU.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", _CPU.read_text(encoding="utf-8"), re.M)
        if found:
            return " ".join(found[1].split())
    return platform.processor() or platform.machine() or "processor"


def _cache() -> float:
    """Largest cache of the first core. [B]"""
    sizes = [file.read_text(encoding="utf-8").strip() for file in _CACHES.glob("index*/size")]
    found = [re.fullmatch(r"(\d+)([KMG]?)", size) for size in sizes]
    scales = {"": 1.0, "K": PREFIX["Ki"], "M": PREFIX["Mi"], "G": PREFIX["Gi"]}
    return max([int(size[1]) * scales[size[2]] for size in found if size], default=CACHE_BYTES)


def _memory() -> float:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return MEMORY_BYTES
