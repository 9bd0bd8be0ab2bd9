"""Serving engines: filling of a step, and defaults on a device; one YAML file per engine.

``hwspecs/engines/`` has the engines that users choose from; its folder ``unlisted/`` has older
releases and other engines that published measurements were made with.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from roofline import content
from roofline.errors import UnknownNameError, did_you_mean
from roofline.hardware.machine import Gpu
from roofline.kept import kept

Policy = Literal["chunked", "continuous"]
First = Literal["decode", "prefill"]
MemoryShare = Literal["device", "free", "static"]
Sampler = Literal["sort", "rejection"]
UNKNOWN: Final = "unknown"
"""Engine that stands for those of which nothing was measured."""
_UNLISTED: Final = "unlisted"


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """Condition on a device, and the default of an engine on the devices that meet it."""

    value: float
    """Default there, in the unit of the setting."""
    memory_below: float = float("inf")
    """Visible memory that the device has less than; infinite where memory does not matter. [B]"""
    title_has: str = ""
    """Text that its title has, in any case; empty where the title does not matter."""

    def applies(self, gpu: Gpu) -> bool:
        """True if a device meets the condition."""
        named = self.title_has.lower() in gpu.title.lower()
        return named and gpu.memory_bytes < self.memory_below


@dataclass(frozen=True, slots=True)
class DeviceDefault:
    """Default of an engine that may differ by device.

    Examples:
        >>> from roofline.hardware.catalog import gpu
        >>> sequences = DeviceDefault(1024, (DeviceRule(256, title_has="A100"),))
        >>> sequences.on(gpu("h100-sxm")), sequences.on(gpu("a100-sxm"))
        (1024, 256)
    """

    value: float
    """Default where no rule applies, in the unit of the setting."""
    rules: tuple[DeviceRule, ...] = ()
    """Exceptions; the first that applies holds."""

    def on(self, gpu: Gpu) -> float:
        """Default on a device, in the unit of the setting."""
        return next((rule.value for rule in self.rules if rule.applies(gpu)), self.value)


@dataclass(frozen=True, slots=True)
class Engine:
    """Scheduling policy and default settings of a serving engine."""

    name: str
    title: str
    """Catalog name and what its makers call it."""
    memory_utilization: DeviceDefault
    """Share of device memory that it uses by default, in the meaning of ``memory_of``, of what
    ``memory_reserved`` leaves. [1]"""
    runtime_bytes: float
    """Taken by the driver context, libraries and communication buffers. [B]"""
    graph_bytes: float
    """Taken by captured CUDA graphs. [B]"""
    step_tokens: DeviceDefault
    """Most new tokens in one step, by default; 0 means no limit. [token]"""
    block_tokens: float
    """KV cache page. [token]"""
    sequences: DeviceDefault = DeviceDefault(1024)
    """Most sequences at once of a group of devices that has sequences of its own. [1]"""
    memory_of: MemoryShare = "device"
    """``"device"``: the share is of all memory, for everything. ``"static"``: of all memory, for
    weights and KV cache. ``"free"``: of what weights, activations and buffers leave, for the
    KV cache."""
    memory_reserved: DeviceDefault = DeviceDefault(0.0)
    """Bytes of the device that are left out before a share is taken. [B]"""
    policy: Policy = "continuous"
    """``"chunked"``: prompts are cut to fill a step. ``"continuous"``: prompts are prefilled
    whole."""
    first: First = "decode"
    """``"decode"``: every running sequence decodes in every step, prompts fill the rest of it.
    ``"prefill"``: steps prefill as long as prompts wait."""
    reservation: float = 0.0
    """Share of an answer for which there must be room before its sequence is admitted; below 1,
    sequences are preempted where pages run out. [1]"""
    graph_kernels: bool = False
    """True if it runs the kernels of a step in CUDA graphs, and fused."""
    sampler: Sampler = "sort"
    """Algorithm of top-k and top-p: ``"sort"`` of the logits, or ``"rejection"`` of draws."""
    decode_reach_bytes_per_s: float = float("inf")
    """Device memory rate beyond which its decode steps get no faster. [B/s]"""
    profile: str = UNKNOWN
    """File of its fitted constants in ``hwspecs/calibrations/engines``."""
    aliases: tuple[str, ...] = ()
    """Names that sources of measurements give it."""
    family: str = ""
    since: tuple[int, int] = (0, 0)
    """Engine that it is a range of releases of, and the first of them, major and minor number."""
    version: str = ""
    """The same range in words."""
    notes: tuple[str, ...] = ()
    """Assumptions and caveats of the figures, one sentence each."""

    def sequences_on(self, gpu: Gpu) -> int:
        """Most sequences at once on a device, of each group with sequences of its own. [1]"""
        return int(self.sequences.on(gpu))

    def step_tokens_on(self, gpu: Gpu) -> int:
        """Most new tokens of a step on a device; 0 for no limit. [token]"""
        return int(self.step_tokens.on(gpu))

    def memory_utilization_on(self, gpu: Gpu) -> float:
        """Share of a device's memory, in the meaning of ``memory_of``. [1]"""
        left = 1.0 - self.memory_reserved.on(gpu) / gpu.memory_bytes
        return self.memory_utilization.on(gpu) * max(left, 0.0)


def _folder() -> Path:
    return content.shipped("hwspecs") / "engines"


def engine_names(*, unlisted: bool = False) -> list[str]:
    """Engines of the catalog that users choose from, by name.

    Args:
        unlisted: True to name older releases and engines of published measurements too.
    """
    folders = (_folder(), _folder() / _UNLISTED) if unlisted else (_folder(),)
    return sorted(path.stem for folder in folders for path in folder.glob("*.yaml"))


@cache
def engine(name: str) -> Engine:
    """Read an engine of the catalog, listed or not.

    Raises:
        UnknownNameError: There is no such engine.
        DocumentError: Its file has a mistake.
    """
    plain = name.lower()
    if plain not in engine_names(unlisted=True):
        known = engine_names()
        close = did_you_mean(plain, known)
        raise UnknownNameError(f"no engine {name!r}", hint=f"{close}engines: {', '.join(known)}")
    path = _folder() / f"{plain}.yaml"
    if not path.is_file():
        path = _folder() / _UNLISTED / f"{plain}.yaml"

    def read() -> Engine:
        from roofline.hardware.engine_file import read_engine

        return read_engine(path)

    return kept(read, "engine", [path])


def engine_of(name: str, version: str = "") -> Engine:
    """Engine of the catalog that a source of measurements means, the unknown one where none is.

    A version decides; without one the spelling does, for sources of 2024 write "vLLM".

    Examples:
        >>> engine_of("vLLM", "0.15.1").name, engine_of("vLLM").name, engine_of("mlc").name
        ('vllm', 'vllm-2024', 'unknown')
    """
    plain = name.lower().replace("-", "").replace("tensorrtllm", "trtllm")
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit())
    families, called = _registers()
    if plain in families and len(numbers) == 2:
        return next(each for each in families[plain] if numbers >= each.since)
    return called.get(name) or called.get(plain) or engine(UNKNOWN)


@cache
def _registers() -> tuple[dict[str, list[Engine]], dict[str, Engine]]:
    """Engines by family, latest release first, and by the names that sources give them."""
    every = [engine(name) for name in engine_names(unlisted=True)]
    families: dict[str, list[Engine]] = {}
    for each in sorted(every, key=lambda found: found.since, reverse=True):
        if each.family:
            families.setdefault(each.family, []).append(each)
    return families, {alias: each for each in every for alias in each.aliases}
