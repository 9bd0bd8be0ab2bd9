"""Engine overheads on top of a step's kernels, and factors on kernel times inside an engine."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import ACTIVATED, SHARED, Number, Op, anywhere
from roofline.errors import InputError
from roofline.model.architecture import Architecture
from roofline.records import replace

if TYPE_CHECKING:
    from roofline.cost.measured import MeasuredTime
    from roofline.hardware.machine import Gpu

FUSABLE: Final[Mapping[str, frozenset[str]]] = {
    "fp8": frozenset({SHARED}),
    "nvfp4": frozenset({SHARED, ACTIVATED}),
}
"""Formats of weights whose inputs the kernel before can convert, by scales of the checkpoint, and
inputs that a kernel beside the product converts all the same: a norm writes 16 bits for the router
and for shared experts, and gated activations write fp8 alone (TensorRT-LLM's
``modeling_deepseekv3.py``, ``forward_MoE``, and ``gated_mlp.py``, ``_apply_activation``). Inputs
in blocks are always converted so."""
ATTENTION: Final = frozenset({"prefill-attention", "decode-attention", "latent-attention"})


class LoggedRange(Struct, frozen=True):
    """Range of loads in an engine's log, and the error of predictions inside it."""

    batch: tuple[float, float]
    context: tuple[float, float]
    tokens: tuple[float, float]
    """Least and most sequences of a step, keys that each of them saw, and keys of all of them.
    [1] [token]"""
    log_sd: float
    """Log standard deviation of the time of such steps, by constants that did not see them. [1]"""
    deployment: str = ""
    """Deployment that wrote the log, as `roofline.bench.calibrations` names one."""

    def octaves_beyond(self, batch: Number, context: Number) -> Number:
        """Octaves by which a load is outside the logged range; 0 inside. [1]

        Args:
            batch, context: Sequences of a step, and what each sees. [1] [token]
        """
        out: Number = np.zeros(())
        ends = (self.batch, self.context, self.tokens)
        for value, (low, high) in zip((batch, context, batch * context), ends, strict=True):
            value = np.maximum(value, 1.0)
            out = np.maximum(out, np.maximum(np.log2(low / value), np.log2(value / high)))
        return out

    def widened(self, beyond: Number, batch: Number, context: Number) -> Number:
        """Log standard deviation at a load: as logged inside, as elsewhere an octave beyond. [1]

        Args:
            beyond: Log standard deviation outside the logged range. [1]
            batch, context: Sequences of a step, and what each sees. [1] [token]

        Examples:
            >>> logged = LoggedRange((8, 64), (500, 2000), (4000, 128_000), 0.04)
            >>> [float(logged.widened(0.14, batch, 1000)) for batch in (16, 64, 128, 1024)]
            [0.04, 0.04, 0.14, 0.14]
        """
        inside: Number = np.minimum(self.log_sd, beyond)
        share = np.minimum(self.octaves_beyond(batch, context), 1.0)
        found: Number = inside + (beyond - inside) * share
        return found


class EngineCosts(Struct, frozen=True):
    """Overheads of an engine on one deployment; none by default.

    A step that only decodes takes g_d·decode + c_step + c_seq·B, one with prompts
    max(g_d·decode + g_p·prefill, c_launch) + c_step + c_seq·B + c_pre. A full batch yields its
    tokens no faster than one step for each B·c_fe.
    """

    step_s: float = 0.0
    """Added to every step. [s]"""
    sequence_s: Number = 0.0
    """Added to a step for each sequence that decodes, of all groups that schedule theirs side by
    side. [s]"""
    prefill_s: float = 0.0
    """Added to a step that prefills. [s]"""
    launch_s: float = 0.0
    """Least kernel time of a step that prefills, all layers: outside CUDA graphs the host launches
    kernels one by one. [s]"""
    front_end_s: Number = 0.0
    """Time of the front end for each token that it hands over: answers leave no faster. [s]"""
    request_s: float = 0.0
    """Delay from a request's arrival to the queue. [s]"""
    serial_s: float = 0.0
    """Part of the delay that the front end spends on one request after another. [s]"""
    cold_s: float = 0.0
    """Added to the first step with prompts after the server started: kernels are compiled or
    chosen for shapes that they meet for the first time. [s]"""
    decode_gain: float = 1.0
    prefill_gain: float = 1.0
    """Factors on the kernels of decode, and on what prefill adds to them. [1]"""
    ttft_log_sd: float = 0.0
    tpot_log_sd: float = 0.0
    """Log standard deviation of measured from predicted serving, in closed loops that no constant
    was fitted to. [1]"""
    logged: LoggedRange | None = None
    """Loads at which a log narrows ``tpot_log_sd``; None without a log."""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for field in self.__struct_fields__:
            if field == "logged":
                continue
            value, name = getattr(self, field), field.removesuffix("_s")
            if anywhere((value < 0) | (value >= float("inf")) | (value != value)):
                raise InputError(
                    f"{name.replace('_', ' ')} overhead is {value}", hint="give 0 or more"
                )
            if name.endswith("gain") and anywhere(value == 0):
                raise InputError(f"{name.replace('_', ' ')} is 0", hint="give a factor above 0")

    @property
    def arrival_s(self) -> float:
        """Time from a request's arrival to the queue of an idle server. [s]"""
        return self.request_s + self.serial_s

    def decode_step(self, kernels: Number, sequences: Number) -> Number:
        """Time between tokens of a batch that only decodes, one for each sequence. [s]

        Args:
            kernels: Sum of its kernels. [s]
            sequences: That decode. [1]

        Examples:
            >>> float(EngineCosts(step_s=1e-3, sequence_s=1e-5).decode_step(5e-3, 100))
            0.007
        """
        whole = self.decode_gain * kernels + (self.step_s + self.sequence_s * sequences)
        return np.maximum(whole, self.front_end_s * sequences)

    def prefill_kernels(self, kernels: Number, stages: Number = 1) -> Number:
        """Time of the kernels of prompts in a stage, no shorter than their launches. [s]

        Args:
            kernels: Sum of the kernels alone. [s]
            stages: Of the pipeline, each with launches of its own. [1]
        """
        return np.maximum(self.prefill_gain * kernels, self.launch_s / stages)

    def prefill_step(self, kernels: Number) -> Number:
        """Time of a step of prompts alone. [s]

        Args:
            kernels: Sum of its kernels. [s]

        Examples:
            >>> float(EngineCosts(step_s=1.0, prefill_s=2.0, prefill_gain=1.5).prefill_step(10.0))
            18.0
        """
        return self.prefill_kernels(kernels) + self.prefill_step_s

    @property
    def prefill_step_s(self) -> float:
        """Time that a step of prompts takes beside its kernels. [s]"""
        return self.step_s + self.prefill_s

    def tpot_sd(self, batch: Number, context: Number) -> Number:
        """``tpot_log_sd`` at a load: less where steps of such loads were logged. [1]

        Args:
            batch, context: Sequences of a step, and what each sees. [1] [token]
        """
        if self.logged is None:
            return self.tpot_log_sd
        return self.logged.widened(self.tpot_log_sd, batch, context)

    def log_sd(
        self, kernels: Number, share: Number, at: tuple[Number, Number] | None = None
    ) -> Number:
        """Log standard deviation of the time of a step. [1]

        Errors of the engine end to end contain those of its kernels.

        Args:
            kernels: Of the kernels. [1]
            share: Of the kernels in the time. [1]
            at: Sequences of a decode step, and what each sees; None for any load. [1] [token]
        """
        whole = self.tpot_log_sd if at is None else self.tpot_sd(*at)
        return np.maximum(kernels * share, whole)


IDEAL: Final = EngineCosts()
"""No overheads."""


class KernelGains(Struct, frozen=True):
    """Factors on kernels that were measured alone, where an engine runs them. [1]"""

    dense: float = 1.0
    passes: float = 1.0
    experts: Number = 1.0
    attention: float = 1.0
    interconnect: float = 1.0
    """On products and look-ups, norms and other passes over activations, routed experts, attention,
    collectives."""
    start: float = 1.0
    start_low: float = 1.0
    start_pass: float = 1.0
    start_experts: float = 1.0
    """On what a product, one in `FUSABLE` formats, a pass over activations and a mixture of experts
    take to start: in a CUDA graph launches are shorter, and neighbours are fused."""
    launch_s: float = 0.0
    """Least time of a kernel, which the host takes to launch the next one. [s]"""

    def seconds(self, op: Op, known: "MeasuredTime") -> Number:
        """Time of one execution of an operator in an engine. [s]

        Args:
            op: What runs.
            known: Its time alone, and what of that is the kernel's start.
        """
        whole_gain, start_gain = gains_on(op, known.kind)
        gain, start = getattr(self, whole_gain), getattr(self, start_gain)
        whole: Number = known.seconds * gain
        if not isinstance(known.start_s, float) or known.start_s:
            whole = whole + known.start_s * (start - gain)
        if self.launch_s:
            whole = np.where(np.asarray(whole) > 0, np.maximum(whole, self.launch_s), whole)[()]
        return whole


ALONE: Final = KernelGains()
"""Kernels as measured, each by itself."""


def gains_on(op: Op, fused: str) -> tuple[str, str]:
    """Names of the gains on the time of an operator, and on what of it is the kernel's start.

    Args:
        op: What runs.
        fused: Kind of the kernel that it is a part of; empty where it is its own.
    """
    kind = fused or op.kind
    if kind == "moe":
        return "experts", "start_experts"
    if kind == "collective":
        return "interconnect", "interconnect"
    if kind in ATTENTION:
        return "attention", "attention"
    if kind == "gemm":
        stored = op.formats.get("weights", "")
        fusable = stored in FUSABLE and op.formats.get("inputs", "") not in FUSABLE[stored]
        return "dense", "start_low" if fusable else "start"
    return "passes" if kind == "pointwise" else "dense", "start_pass"


def kind_of(network: Architecture) -> str:
    """Kind of a network that engines differ by: ``"dense"``, ``"mixture"`` or ``"latent"``."""
    if network.latent_forms:
        return "latent"
    return "mixture" if network.mixtures else "dense"


class EngineProfile(Struct, frozen=True):
    """Constants of an engine as fitted to serving that was measured end to end."""

    step_s: float = 0.0
    sequence_s: float = 0.0
    prefill_s: float = 0.0
    request_s: float = 0.0
    serial_s: float = 0.0
    front_end_s: float = 0.0
    """Times of `EngineCosts`; those of a sequence and of a token are of one group with sequences,
    and a scheduler, of its own. [s]"""
    cold_s: float = 0.0
    """The same of mixtures of experts; other networks start as fast as they go on. [s]"""
    launch_s: float = 0.0
    """The same of one layer of a mixture of experts; other layers launch little. [s]"""
    mixture_s: float = 0.0
    """Time of one layer of a mixture of experts in every step, around its kernels. [s]"""
    decode_gain: float = 1.0
    prefill_gain: float = 1.0
    """Factors of `EngineCosts`. [1]"""
    passes: float = 1.0
    """On passes over activations, which engines fuse with what is before or after. [1]"""
    experts: float = 1.0
    """On routed experts, beside ``experts_all``. [1]"""
    start: float = 1.0
    start_low: float = 1.0
    start_pass: float = 1.0
    experts_start: float = 1.0
    """Factors of `KernelGains`, of all engines; ``start_low`` applies with ``fused_inputs``. [1]"""
    fused_inputs: bool = False
    """Whether the kernel before converts inputs of `FUSABLE` products: else they start as others
    do."""
    experts_all: float = 1.0
    """On routed experts of every engine. [1]"""
    experts_apart: float = 1.0
    """On routed experts beside those, where they are spread over groups of devices: servers take
    longer there than kernels alone. That uneven groups are the reason is assumed. [1]"""
    experts_prompts: float = 1.0
    """On prompts of mixtures, whose experts are unevenly loaded. [1]"""
    interconnect: float = 1.0
    """Factor of `KernelGains`, of all engines together. [1]"""
    reach_bytes_per_s: float = float("inf")
    """Device memory rate beyond which its decoding gets no faster. [B/s]"""
    spreads: tuple[tuple[str, float, float], ...] = ()
    """Generation of the device, empty for all others, and ``ttft_log_sd`` and ``tpot_log_sd`` of
    `EngineCosts` there. [1]"""
    logged: LoggedRange | None = None
    """Loads of the log that the constants were learnt from; None where there is none."""
    source: str = ""
    """File of a profile of the user's own; empty for the one that is shipped."""

    @property
    def gains(self) -> KernelGains:
        """Factors on the kernels that were measured."""
        return KernelGains(
            passes=self.passes,
            experts=self.experts * self.experts_all,
            interconnect=self.interconnect,
            start=self.start,
            start_low=self.start_low if self.fused_inputs else self.start,
            start_pass=self.start_pass,
            start_experts=self.experts_start,
        )

    def costs(self, network: Architecture, gpu: "Gpu", groups: Number) -> EngineCosts:
        """Overheads on a deployment.

        Args:
            network, gpu: What runs on what.
            groups: Groups of devices that have sequences, a scheduler and a front end of their own.
                [1]
        """
        mixtures = sum(number for block, number in network.kinds.items() if block.experts)
        spreads = {generation: pair for generation, *pair in self.spreads}
        elsewhere = spreads.get("", (0.0, 0.0))
        first, between = spreads.get(gpu.architecture, elsewhere)
        return EngineCosts(
            step_s=self.step_s + self.mixture_s * mixtures,
            sequence_s=self.sequence_s / groups,
            prefill_s=self.prefill_s,
            launch_s=self.launch_s * mixtures,
            front_end_s=self.front_end_s / groups,
            request_s=self.request_s,
            serial_s=self.serial_s,
            cold_s=self.cold_s if mixtures else 0.0,
            decode_gain=self.decode_gain * max(gpu.hbm_bytes_per_s / self.reach_bytes_per_s, 1.0),
            prefill_gain=self.prefill_gain * (self.experts_prompts if mixtures else 1.0),
            ttft_log_sd=first,
            tpot_log_sd=between,
            logged=self.logged,
        )


NO_ENGINE: Final = EngineProfile()
"""Kernels alone."""


LAUNCH_S: Final = 8e-6
"""Time that the host takes to launch a kernel outside CUDA graphs, through PyTorch. Assumed. [s]"""


def eager(gains: KernelGains) -> KernelGains:
    """Gains of kernels that are launched one by one, outside CUDA graphs.

    Their starts are those of kernels measured alone, and none is shorter than a launch.
    """
    return replace(
        gains, start=1.0, start_low=1.0, start_pass=1.0, start_experts=1.0, launch_s=LAUNCH_S
    )
