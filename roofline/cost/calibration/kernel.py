"""Kernels that operators ask for, fitted ones, and the devices whose kernels stand for others."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.form import Dims, FittedForm, Form
from roofline.cost.work import Array, Number
from roofline.hardware.machine import Gpu
from roofline.records import replace


class KernelQuery(NamedTuple):
    """A kernel as fits know it."""

    kind: str
    variants: tuple[str, ...]
    """Kind and variants of the kernel; formats in the order in which they would do."""
    dims: Dims
    """Columns of the form, one row per scenario."""
    arithmetic: str = "bf16"
    """Arithmetic whose rate the form is given."""
    form: Form | None = None
    """Form for widths that were not measured, with the constants of the fitted one."""
    assumed: str = ""
    """Reason why no such kernel was measured anywhere, in words; empty where one was."""
    part: str = ""
    """Part of a fused kernel that the operator is; empty for the whole."""
    instead: "KernelQuery | None" = None
    """Another kernel that would do: whichever takes less time does it."""
    otherwise: "KernelQuery | None" = None
    """Kernel that is asked for where none like this one was measured."""
    own: bool = False
    """True where only a kernel of this engine, measured on this device, would do."""
    beside: "KernelQuery | None" = None
    """Kernel that a fused one also does: it takes at least as long."""
    then: "KernelQuery | None" = None
    """Another kernel that runs after it: their times add up."""
    cold: bool = False
    """True where it was measured on a state that may have stayed in the last-level cache, which is
    in memory in a step."""
    rows: NDArray[np.bool_] | None = None
    """Rows that ``assumed`` and ``instead`` are about; None for all."""
    special: tuple[tuple[str, NDArray[np.bool_], Dims], ...] = ()
    """Shapes that some engines have a kernel of its own for, the first that fits: the end of its
    variant, which rows are so, and the columns it takes."""


SIXTEEN: Final = ("bf16", "fp16")


def columns(**numbers: Number) -> dict[str, Array]:
    """Numbers and arrays as columns of one length."""
    found = {name: np.asarray(value, dtype=np.float64) for name, value in numbers.items()}
    rows = max(column.size for column in found.values())
    return {
        name: column if column.shape == (rows,) else np.full(rows, column)
        for name, column in found.items()
    }


def unmeasured(stored: str) -> str:
    """Words for weights that no product was measured with."""
    return f"no product with {stored} weights was measured: the nearest one, at these widths"


class FitLabel(NamedTuple):
    """Label of a fit."""

    device: str
    """Catalog name of the device that was measured."""
    provider: str
    """Engine or library of the kernels: ``"trtllm"``, ``"nccl"``."""
    kind: str
    """Kind of kernel: ``"gemm"``, ``"decode-attention"``."""
    variant: str
    """Number formats or operator: ``"fp8_block"``, ``"bfloat16-fp8"``, ``"all_reduce"``."""
    mine: str = ""
    """The user's own calibration that it is in; empty for one that is shipped."""


class FittedKernel(NamedTuple):
    """A fitted form."""

    label: FitLabel
    arithmetic: str
    """Arithmetic whose published rate the form was given: ``"bf16"``."""
    model: FittedForm
    name: str = ""
    """Name of the kernel in the source of the measurements; its schedule follows from that."""


Load: TypeAlias = Callable[[FitLabel], FittedKernel]

NEAR: Final[Mapping[str, float]] = {
    "gemm": 0.06,
    "decode-attention": 0.02,
    "prefill-attention": 0.04,
    "encoder-attention": 0.04,
    "linear-attention": 0.08,
    "sparse-attention": 0.13,
    "latent-decode": 0.12,
    "latent-prefill": 0.06,
    "latent-heads": 0.18,
    "latent-module": 0.16,
    "hyper-connections": 0.01,
    "moe": 0.02,
    "moe-wideep": 0.04,
    "collective": 0.09,
    "expert-exchange": 0.19,
    "quantize": 0.04,
}
"""Log standard deviation that carrying a kernel to a device of its generation adds, by kind, so
that four of five of all rows are inside (`roofline.bench.shipping.carrying`, eight devices left out
one by one); `BESIDE` where a kind has none. [1]"""
BESIDE: Final = 0.06
FAR: Final[Mapping[str, float]] = {
    "gemm": 0.25,
    "decode-attention": 0.46,
    "prefill-attention": 0.34,
    "encoder-attention": 0.37,
    "linear-attention": 0.53,
    "sparse-attention": 0.41,
    "latent-decode": 0.58,
    "latent-prefill": 0.47,
    "latent-heads": 0.39,
    "hyper-connections": 0.59,
    "moe": 0.37,
    "collective": 0.62,
    "quantize": 0.34,
    "pointwise": 0.17,
}
"""The same to another generation, as measured there; of other kinds `ELSEWHERE`."""
ELSEWHERE: Final = 0.5
"""The same of kinds that were not measured so, and at least of kernels of another vendor; assumed.
"""
BORROWED: Final[Mapping[str, float]] = {
    "gemm": 0.43,
    "decode-attention": 0.28,
    "prefill-attention": 0.41,
    "encoder-attention": 0.43,
    "linear-attention": 0.31,
    "sparse-attention": 0.44,
    "latent-decode": 0.1,
    "latent-prefill": 0.1,
    "latent-heads": 0.06,
    "hyper-connections": 0.12,
    "moe": 0.46,
    "collective": 0.24,
    "quantize": 1.61,
    "pointwise": 0.1,
}
"""The same of kernels of another engine's, by kind, as measured by leaving engines out; passes are
assumed. Of other kinds `ENGINES`."""
ENGINES: Final = 0.45
BLOCKS: Final = ("gemm", "fp8_block")
DEEPGEMM: Final = frozenset({"hopper", "blackwell", "blackwell-ultra"})
"""Generations on which SGLang, vLLM and TensorRT-LLM (on Hopper a version of its own) take products
of blocks from one library."""
ONE_LIBRARY: Final = 0.17
"""`BORROWED` of such products. Of those of 0.3 ms and more, where neither packing nor the host
counts, SGLang's and TensorRT-LLM's differ by 0.05 to 0.15 on four devices of Blackwell, SGLang's
and vLLM's by 0.12 and 0.17 on two of Hopper (400 to 900 products of each device). [1]"""
PASSES: Final = "passes"
SAME_CHIP: Final = frozenset({"h100-sxm", "h200-sxm"})
"""Devices of one chip with other memories, on one of which passes were measured in graphs."""
LAUNCHED: Final = "vidur"
"""Provider of passes that were launched one by one, by kernels of 2023: two to five times what the
same pass takes in a graph on an H200 (``hwspecs/records``). In steps `PASSES` come before it."""
CUBLAS: Final = "cublas"
NCCL: Final = "nccl"
NEUTRAL: Final = frozenset({"vidur", NCCL, "torch-nccl", "deepep", PASSES, CUBLAS})
"""Providers whose kernels no engine replaces: passes over activations, libraries."""
IDEAL: Final = "ideal"
"""An engine that has the kernels of all."""
LIBRARY: Final = frozenset({("gemm", "bfloat16")})
"""Kernels that every engine takes from one library: products in 16 bits, cuBLAS."""

SUPERSEDED: Final = frozenset(
    {
        FitLabel("a100-sxm", "sglang", "linear-attention", "gdn-prefill-convolution"),
        FitLabel("a100-sxm", "sglang", "linear-attention", "gdn-decode-convolution"),
    }
)
"""Kernels that stand for no other device's: an A100 was measured with SGLang 0.5.10, whose
convolutions are those of causal-conv1d, and all others with 0.5.14 and later, where Triton's have
their names."""
OLDER: Final = frozenset({"ada", "hopper"})
"""Generations on which SGLang's attention to prompts was measured inside the latent."""


class KernelFit(NamedTuple):
    """A fit, and how far it is from what was asked for."""

    fit: FittedKernel
    foreign: bool
    far: bool
    """True where it was measured on another device, and where that is of another generation."""
    borrowed: bool
    """True where it is another engine's."""
    same_chip: bool = False
    """True where it is a pass that was measured on a device with the same chip, whose memory alone
    has another rate."""
    vendor: bool = False
    """True where it was measured on a device of another vendor."""
    one_library: bool = False
    """True where another engine's is the kernel that the engine has, of the same library."""

    @property
    def spread(self) -> float:
        """Log standard deviation that the distance adds. [1]"""
        kind = self.fit.label.kind
        of_engine = BORROWED.get(kind, ENGINES) if self.borrowed else 0.0
        if self.one_library:
            of_engine = ONE_LIBRARY
        of_device = NEAR.get(kind, BESIDE) if self.foreign else 0.0
        if self.far:
            of_device = FAR.get(kind, ELSEWHERE)
        if self.vendor:
            of_device = max(of_device, ELSEWHERE)
        return math.hypot(of_engine, of_device)


def nearest(
    labels: Sequence[FitLabel],
    load: Load,
    gpu: Gpu,
    provider: str,
    kind: str,
    variants: Sequence[str],
    *,
    in_steps: bool,
) -> KernelFit | None:
    """The fit that stands for a kernel, and how far it is from it; None if nothing is like it.

    The first variant that any device has is taken; of its devices the most alike, and there the
    engine's own kernels before those of others. Kernels that are not an engine's are the user's own
    first, and those are also the first to stand for what an engine has no kernel of.

    Args:
        labels, load: Of all fits there are, and how to get one.
        gpu, provider: Device and engine that are asked about.
        kind, variants: Of kernel; formats in the order in which they would do.
        in_steps: Whether kernels that are `passed_over` in steps are only taken where there is no
            other.
    """
    places: dict[tuple[str, str], list[FitLabel]] = {}
    replayed = {each.variant for each in labels if each.provider == PASSES} if in_steps else set()
    for label in labels:
        if label.provider == LAUNCHED and label.kind == "pointwise" and label.variant in replayed:
            continue
        if label in SUPERSEDED and label.device != gpu.name:
            continue
        if label.kind == kind and label.variant in variants:
            places.setdefault((label.variant, label.device), []).append(label)
    for variant in variants:
        for device in devices(gpu):
            if here := places.get((variant, device)):
                here = sorted(here, key=lambda each: not each.mine)
                has = (kind, variant) == BLOCKS and generation(gpu) in DEEPGEMM
                has = has and any(each.provider == provider for each in here)
                if in_steps:
                    here = [each for each in here if not passed_over(each)] or here
                own = [each for each in here if each.provider == provider]
                shared = [each for each in here if _shared(each)]
                measured = [each for each in shared if each.mine]
                borrowed = provider != IDEAL and not (own or shared)
                fit = load((measured or own or shared or here)[0])
                return KernelFit(
                    fit._replace(model=carried(fit.model, kind, device, gpu)),
                    foreign=device != gpu.name,
                    far=device in MEASURED and MEASURED[device].generation != generation(gpu),
                    borrowed=borrowed,
                    vendor=device != gpu.name and generation(gpu) in FOREIGN,
                    same_chip=kind == "pointwise" and {device, gpu.name} == SAME_CHIP,
                    one_library=borrowed and has,
                )
    return None


def _shared(label: FitLabel) -> bool:
    """True where any engine may have this kernel."""
    return label.provider in NEUTRAL or (label.kind, label.variant) in LIBRARY


def passed_over(label: FitLabel) -> bool:
    """True where a step takes other time than was measured, and another engine's kernel stands in.

    vLLM's products of blocks were launched one by one, each with the conversion of its input: 0.15
    ms and more on Blackwell from 1 to 1,024 rows, and twice that on a GB200, whose chip is the same
    and whose host is slower; SGLang's and TensorRT-LLM's DeepGEMM takes 7 to 18 µs of either. Its
    latent attention was timed so as well, 0.1 to 0.35 ms on all devices. A graph of kernels has no
    time of the host. SGLang's products of blocks were given scales of weights in 32 bits, which
    DeepGEMM spreads and packs on Blackwell before each product (7 µs more than TensorRT-LLM's from
    1 to 4,096 rows, 15 for matrices of 100 MB; nothing on Hopper); its server packs them once, when
    it loads (``requant_weight_ue8m0``). SGLang's attention to prompts was measured inside the
    latent, on 576 and 512 numbers of each key; it runs expanded, on 192 and 128 (its
    ``MHA_CHUNKED_KV``), where nothing
    of a prompt is cached. Users measure graphs, and what they run.
    """
    match label.provider, label.kind:
        case _ if label.mine:
            return False
        case "vllm", "gemm":
            return label.variant == "fp8_block"
        case "vllm", "latent-decode" | "latent-prefill":
            return True
        case "sglang", "latent-prefill":
            return MEASURED[label.device].generation in OLDER
        case "sglang", "gemm":
            return label.variant == "fp8_block" and MEASURED[label.device].generation not in OLDER
    return False


class MeasuredDevice(NamedTuple):
    """Published figures of a measured device, by which its kernels are carried to others."""

    generation: str
    hbm_bytes_per_s: float
    """Memory. [B/s]"""
    clock_hz: float
    """Boost clock. [Hz]"""
    sustained: float = 0.0
    """Share of the dense rate that large products keep up, 0 if unknown. [1]"""


MEASURED: Final[Mapping[str, MeasuredDevice]] = {
    "a100-sxm": MeasuredDevice("ampere", 2.039e12, 1.41e9, 0.848),
    "l40s": MeasuredDevice("ada", 0.864e12, 2.52e9, 0.743),
    "h100-sxm": MeasuredDevice("hopper", 3.35e12, 1.98e9, 0.798),
    "h200-sxm": MeasuredDevice("hopper", 4.8e12, 1.98e9, 0.799),
    "b200-sxm": MeasuredDevice("blackwell", 7.7e12, 1.965e9, 0.754),
    "gb200": MeasuredDevice("blackwell", 8e12, 2.062e9),
    "b300-sxm": MeasuredDevice("blackwell-ultra", 7.7e12, 2.032e9),
    "gb300": MeasuredDevice("blackwell-ultra", 8e12, 2.032e9),
}
"""Figures of the catalog."""
STACKED: Final = 2e12
"""Bandwidth from which a device of these generations has stacked memory. [B/s]"""
ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "ampere": ("ampere", "ada", "hopper"),
    "ada": ("ada", "ampere", "hopper"),
    "hopper": ("hopper", "blackwell", "blackwell-ultra", "ampere"),
    "blackwell": ("blackwell", "blackwell-ultra", "hopper", "ampere"),
    "blackwell-ultra": ("blackwell-ultra", "blackwell", "hopper", "ampere"),
    "blackwell-gddr": ("ada", "ampere", "blackwell", "blackwell-ultra", "hopper"),
    "xe2": ("ada", "ampere"),
}
"""Generations whose kernels stand for those of a generation, the most alike first. Ada runs the
kernels of Ampere (mma.sync, no wgmma or TMA), and so do the chips of Blackwell with GDDR memory;
chips with stacked memory have tensor memory and kernels of their own."""
FOREIGN: Final = frozenset({"xe2"})
"""Generations of another vendor than the measured devices': their libraries have other kernels."""
WIRED: Final = frozenset({"collective", "expert-exchange", "moe-alltoall"})
"""Kinds whose latencies are those of wires between devices, whatever the clock."""
HOST: Final = frozenset({"host", "uneven"})
"""Latencies of the host, by name."""
PRODUCTS: Final = frozenset({"gemm", "moe", "moe-wideep", "gated-mlp"})
"""Kinds that multiply as densely as a device can, whose power may bound them."""
ALIKE: Final = 1.05
"""Ratio up to which published boost clocks are one clock: those of a B200 and a GB200 are 1.05
apart, and their latencies are the same (decoding on a B200 by a GB200's fits is 3.3 % off in the
median, with latencies by the clock 6.0)."""


def generation(gpu: Gpu) -> str:
    """Generation of a device as its kernels have it, a key of `ORDER` where it has any like it."""
    gddr = gpu.architecture == "blackwell" and gpu.hbm_bytes_per_s < STACKED
    return "blackwell-gddr" if gddr else gpu.architecture


def known(gpu: Gpu) -> bool:
    """True where kernels of a device, or of one like it, were measured."""
    return generation(gpu) in ORDER


def devices(gpu: Gpu) -> tuple[str, ...]:
    """Measured devices that may stand for one, itself first, then by generation and bandwidth."""
    order = ORDER.get(generation(gpu), ())

    def unlike(name: str) -> tuple[int, float]:
        known = MEASURED[name]
        rate = known.hbm_bytes_per_s / gpu.hbm_bytes_per_s
        return order.index(known.generation), abs(math.log(rate))

    others = [name for name in MEASURED if name != gpu.name and MEASURED[name].generation in order]
    return (gpu.name, *sorted(others, key=unlike))


def carried(model: FittedForm, kind: str, device: str, gpu: Gpu) -> FittedForm:
    """A fit of one device as it stands for another.

    Shares of published rates stay as they are. Latencies are cycles of the multiprocessors: in
    seconds they go with the clock. Products reach the share of the dense rate that large ones keep
    up within the power of each device, where that is known of both.

    Args:
        model: The fit.
        kind: Of kernel.
        device: Name of the device that was measured; a fit of one that is not in `MEASURED` is
            taken as it is.
        gpu: The device that it stands for.
    """
    source = MEASURED.get(device)
    if source is None or device == gpu.name:
        return model
    slower = source.clock_hz / gpu.clock_hz if gpu.clock_hz and kind not in WIRED else 1.0
    if 1.0 / ALIKE <= slower <= ALIKE:
        slower = 1.0
    kept = gpu.sustained / source.sustained if gpu.sustained and source.sustained else 1.0
    constants = dict(model.constants)
    for each in model.form.constants:
        if each.unit == "s" and each.name not in HOST:
            constants[each.name] *= slower
        elif each.name == "compute" and kind in PRODUCTS:
            constants[each.name] = min(constants[each.name] * kept, each.high)
    return replace(model, constants=constants)
