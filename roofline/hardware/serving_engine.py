"""Serving engine as a record: filling of a step, and defaults on a device."""

from typing import Final, Literal

from msgspec import Struct

from roofline.hardware.machine import Gpu
from roofline.part import Number

Policy = Literal["chunked", "continuous"]
First = Literal["decode", "prefill"]
MemoryShare = Literal["device", "free", "static"]
Sampler = Literal["sort", "rejection"]
UNKNOWN: Final = "unknown"
"""Engine that stands for those of which nothing was measured."""


class DeviceRule(Struct, frozen=True):
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


class DeviceDefault(Struct, frozen=True):
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


class Engine(Struct, frozen=True):
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
    step_tokens_of: Literal["group", "replica"] = "group"
    """``"group"``: of each group of devices that has sequences of its own. ``"replica"``: of all of
    them, each of which takes an equal part."""
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
    fits: bool = False
    """True if a prompt that is not cut waits until it fits beside those that decode."""
    graph_kernels: bool = False
    """True if it runs the kernels of a step in CUDA graphs, and fused."""
    fuses: bool = True
    """True if passes over activations are fused: norms with the add before them, rotations, gates
    with their activation. False for one kernel for each operation."""
    fused_inputs: bool = False
    """True if the kernel before a product in fp8 or nvfp4 converts its inputs, with the scales of
    the checkpoint; False if a kernel beside the product does."""
    integers: bool = False
    """True if weights in llama.cpp's blocks are multiplied as integers of 8 bits, where the device
    has units for that; False if they are converted to the width of the activations."""
    copies_above: int = 0
    """Tokens of a step above which weights of fewer bits are converted into a copy in device memory
    that the product reads; 0 where they are converted inside the product. [token]"""
    wide: bool = False
    """True if operators hand activations on in fp32, so that products convert what they read and
    write."""
    flash_attention: bool = True
    """True if scores of attention stay on chip; False if they go through device memory."""
    micro_batch_tokens: int = 0
    """Most tokens of a micro-batch in a pipeline, which are as many as that makes of a step, one
    behind the other; 0 for one micro-batch in each stage, always. [token]"""
    layouts: tuple[tuple[str, ...], ...] = ()
    """Degrees of parallelism that may be above 1 in one layout, by their names there; empty where
    all may be at once."""
    sampler: Sampler = "sort"
    """Algorithm of top-k and top-p: ``"sort"`` of the logits, or ``"rejection"`` of draws."""
    decode_reach_bytes_per_s: float = float("inf")
    """Device memory rate beyond which its decode steps get no faster. [B/s]"""
    handover_s: float = 0.0
    """Software of handing a request from a prefill to a decode instance: router, bootstrap, room
    for its cache. [s]"""
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

    def step_tokens_on(self, gpu: Gpu, groups: Number = 1) -> Number:
        """Most new tokens of a step on such devices, of all groups; 0 for no limit. [token]

        Args:
            gpu: Device.
            groups: Groups of devices with sequences of their own. [1]
        """
        tokens = int(self.step_tokens.on(gpu))
        return tokens // groups * groups if self.step_tokens_of == "replica" else tokens * groups

    def memory_utilization_on(self, gpu: Gpu) -> float:
        """Share of a device's memory, in the meaning of ``memory_of``. [1]"""
        left = 1.0 - self.memory_reserved.on(gpu) / gpu.memory_bytes
        return self.memory_utilization.on(gpu) * max(left, 0.0)
