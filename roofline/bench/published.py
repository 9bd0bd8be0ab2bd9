"""Published rates of where probes run: what a plan expects, and what fits are compared with.

Operating systems tell the cores, caches and memory of a processor, and none of its rates: those of
a generic processor of the catalog stand in for them.
"""

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from roofline.cost.kernels.form import Machine
from roofline.cost.kernels.form import machine as machine_of
from roofline.errors import DocumentError, RooflineError
from roofline.hardware.catalog import default_node, gpu
from roofline.hardware.machine import Gpu
from roofline.records import replace
from roofline.study.executors import cores
from roofline.units import PREFIX

GENERIC: Final = "cpu-generic"
"""GPU file of the generic processor."""
CACHE_BYTES: Final = 32 * PREFIX["Mi"]
MEMORY_BYTES: Final = 4 * PREFIX["Gi"]
"""Sizes that are taken where the operating system does not say. [B]"""
USUAL: Final = ("bf16", "fp16", "fp32")
"""Arithmetic that stands for a device where a probe has none, the first one that it has."""

_CPU: Final = Path("/proc/cpuinfo")
_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")


class Processor(Struct, frozen=True):
    """Processor of this machine."""

    title: str
    """Name that it gives itself."""
    cores: int
    """Cores that this process may use. [1]"""
    cache_bytes: float
    """Last-level cache. [B]"""
    memory_bytes: float
    """Memory of the machine, free or not. [B]"""

    @property
    def name(self) -> str:
        """Name for files: ``"amd-epyc-2-cores"``."""
        plain = re.sub(r"\([^)]*\)|@.*|\b(cpu|processor|core)\b", " ", self.title.lower())
        words = re.findall(r"[a-z0-9]+", plain)
        return "-".join([*words[:6], str(self.cores), "cores"])


def detect() -> Processor:
    """Processor of this machine."""
    memory = MEMORY_BYTES
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return Processor(_title(), cores(), _cache(), memory)


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


class PublishedRates(Struct, frozen=True):
    """Published rates."""

    source: str
    """Device of the rates: a name or path that `roofline.hardware.catalog.gpu` finds."""
    machine: Machine
    """Rates at the usual arithmetic of the device."""
    rates: Mapping[str, float] = {}
    """Rates by arithmetic type; empty where all are that of `machine`. [FLOP/s]"""
    link_bytes_per_s: float = 0.0
    """Rate of a device to others in one direction; 0 where there are no others. [B/s]"""
    in_switch: bool = False
    """True where the switch between them adds numbers itself."""

    def of(self, arithmetic: str) -> Machine:
        """The machine as it computes in that type; its usual one where there is none."""
        rate = self.rates.get(arithmetic, self.machine.flops_per_s)
        return replace(self.machine, flops_per_s=rate)


def of_processor(here: Processor, threads: int) -> PublishedRates:
    """Rates that stand in for those of a processor: its cores' arithmetic, a socket's memory."""
    generic = gpu(GENERIC)
    machine = Machine(
        flops_per_s=generic.rate("fp32") * threads / generic.multiprocessors,
        hbm_bytes_per_s=generic.hbm_bytes_per_s,
        l2_bytes=here.cache_bytes,
        l2_bytes_per_s=generic.l2_bytes_per_s,
        multiprocessors=float(threads),
    )
    return PublishedRates(GENERIC, machine)


def of_gpu(found: Gpu, source: str, link: str = "", devices: int = 1) -> PublishedRates:
    """Rates of a GPU, in a machine with so many, joined by a link of that kind.

    Args:
        found: Of the catalog.
        source: Name or path that finds it there.
        link: Key of its ``links``; empty for a GPU that is alone.
        devices: In the machine. [1]
    """
    usual = next(
        (name for name in USUAL if name in found.flops_per_s), next(iter(found.flops_per_s))
    )
    wires = found.links.get(link)
    if wires and devices > 1:
        inside = default_node(found, devices).link
        wires = inside if inside and inside.kind == link else wires
    return PublishedRates(
        source,
        machine_of(found, usual),
        dict(found.flops_per_s),
        wires.bytes_per_s if wires else 0.0,
        bool(wires and wires.reduces),
    )


def of_run(about: Mapping[str, str]) -> PublishedRates:
    """Rates of the machine of a run, wherever it is read, from its environment.

    Raises:
        DocumentError: Its environment does not say what machine it was, or that is not to be found
            here.
    """
    try:
        if "datasheet" in about:
            source, devices = about["datasheet"], int(about.get("devices", "1"))
            return of_gpu(gpu(source), source, about.get("link", ""), devices)
        here = Processor(
            about["processor"], int(about["cores"]), float(about["cache"]), float(about["memory"])
        )
        return of_processor(here, int(about["threads"]))
    except (KeyError, ValueError) as error:
        raise DocumentError(
            f"the environment of the run is incomplete: {error}", hint="measure again"
        ) from None
    except RooflineError as error:
        raise DocumentError(
            f"the published rates of the run are not here: {error.told}", hint=error.hint
        ) from None
