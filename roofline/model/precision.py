"""Number formats: what a stored value weighs, and which arithmetic it is multiplied in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from roofline.errors import MissingRateError, UnknownNameError
from roofline.hardware.machine import Gpu
from roofline.units import BITS_PER_BYTE


@dataclass(frozen=True, slots=True)
class Format:
    """A way to store numbers.

    Attributes
    ----------
    name
        ``"bf16"``, ``"int4"``.
    bits
        Per value, scales and zero points included. [bit]
    arithmetic
        Types it can be multiplied in without conversion, best first.
    weight_only
        Whether activations stay in 16 bits: weights are converted on the way to the multiplier.
    source
        Where the bits come from.
    """

    name: str
    bits: float
    arithmetic: tuple[str, ...]
    weight_only: bool = False
    source: str = "width of the type"

    @property
    def width(self) -> float:
        """Bytes per value. [B]"""
        return self.bits / BITS_PER_BYTE


FORMATS: Final[Mapping[str, Format]] = {
    entry.name: entry
    for entry in (
        Format("fp32", 32, ("fp32",)),
        Format("bf16", 16, ("bf16",)),
        Format("fp16", 16, ("fp16",)),
        Format("fp8", 8, ("fp8",), source="8 bits; a scale per tensor or row is below 0.1 %"),
        Format("int8", 8, ("int8",), source="8 bits; a scale per row is below 0.1 %"),
        Format(
            "int4",
            4 + (16 + 4) / 128,
            (),
            weight_only=True,
            source="AWQ, GPTQ: groups of 128 with an fp16 scale and a packed 4-bit zero",
        ),
        Format(
            "mxfp4",
            4 + 8 / 32,
            ("fp4",),
            source="OCP MX v1.0: groups of 32 with an 8-bit scale",
        ),
        Format(
            "nvfp4",
            4 + 8 / 16,
            ("fp4",),
            source="NVIDIA: groups of 16 with an fp8 scale; one fp32 scale per tensor left out",
        ),
    )
}
KV_FORMATS: Final = ("fp32", "bf16", "fp16", "fp8", "int8")


def named(name: str) -> Format:
    """Format of that name.

    Raises
    ------
    UnknownNameError
        There is none.
    """
    if name.lower() in FORMATS:
        return FORMATS[name.lower()]
    raise UnknownNameError(f"no number format {name!r}", hint=f"formats: {', '.join(FORMATS)}")


@dataclass(frozen=True, slots=True)
class Precision:
    """Formats of a deployment, and the arithmetic that follows on one GPU.

    Attributes
    ----------
    weights
        Of the linear layers.
    activations
        Between operators; of norms, biases, embeddings and LM head unless those are wider.
    kv
        Of the cache.
    head
        Of the token embedding and the LM head, which quantised checkpoints leave in 16 bits.
    linear_arithmetic, attention_arithmetic
        Types the products run in: keys of `Gpu.flops_per_s`.
    notes
        Conversions that a reader should know of, one sentence each.
    """

    weights: Format
    activations: Format
    kv: Format
    head: Format
    linear_arithmetic: str
    attention_arithmetic: str
    notes: tuple[str, ...] = ()


def resolve(weights: str, kv: str, gpu: Gpu) -> Precision:
    """Choose arithmetic for the formats asked for, on a GPU.

    Formats the GPU cannot multiply fall back to one named path, 16-bit arithmetic on converted
    weights, which vLLM, TensorRT-LLM and SGLang have; the notes say so.

    Parameters
    ----------
    weights
        Format of the linear layers.
    kv
        Format of the cache, or ``"auto"``: that of the activations.
    gpu
        Where it runs.

    Raises
    ------
    UnknownNameError
        A format is not known, or not one a cache can have.
    MissingRateError
        The GPU cannot multiply the format and nothing converts it.
    """
    stored = named(weights)
    notes: list[str] = []
    if stored.bits >= 16:
        activations = stored
        if stored.name not in gpu.flops_per_s:
            other = next((n for n in ("fp16", "bf16", "fp32") if n in gpu.flops_per_s), None)
            hint = f"try --weights {other}; {gpu.name} has " + ", ".join(gpu.flops_per_s)
            raise MissingRateError(f"{gpu.name} has no {stored.name} arithmetic", hint=hint)
        arithmetic = stored.name
    else:
        sixteen = next((name for name in ("bf16", "fp16") if name in gpu.flops_per_s), None)
        if sixteen is None:
            raise MissingRateError(
                f"{gpu.name} has no 16-bit arithmetic for {stored.name} weights",
                hint=f"it has {', '.join(gpu.flops_per_s)}",
            )
        activations = FORMATS[sixteen]
        native = next((name for name in stored.arithmetic if name in gpu.flops_per_s), None)
        arithmetic = native or sixteen
        if native is None:
            reason = (
                "weight-only"
                if stored.weight_only
                else f"{gpu.name} has no {'/'.join(stored.arithmetic)} arithmetic"
            )
            notes.append(
                f"{stored.name} weights are converted and multiplied in {sixteen} ({reason}): "
                "fewer bytes, the same FLOP rate"
            )
    if kv == "auto":
        cache = activations
    else:
        cache = named(kv)
        if cache.name not in KV_FORMATS:
            raise UnknownNameError(
                f"a KV cache cannot be stored as {cache.name}",
                hint=f"cache formats: {', '.join(KV_FORMATS)}",
            )
    if cache.bits < activations.bits:
        notes.append(f"the {cache.name} KV cache is converted and multiplied in {activations.name}")
    return Precision(
        weights=stored,
        activations=activations,
        kv=cache,
        head=activations,
        linear_arithmetic=arithmetic,
        attention_arithmetic=activations.name,
        notes=tuple(notes),
    )
