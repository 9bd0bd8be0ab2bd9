"""Arithmetic and conversions of weights and activations on one machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.errors import MissingRateError, UnknownNameError
from roofline.hardware.machine import SPARSE, Gpu
from roofline.model.precision.formats import FORMATS, INPUTS, KV_FORMATS, MULTIPLIED, NumberFormat
from roofline.model.precision.naming import named
from roofline.records import replace
from roofline.units import BITS_PER_BYTE

INTEGERS: Final = frozenset({"int8", "fp32"})
"""Arithmetic of a product of integers in blocks, and of the scales of blocks."""
Value: TypeAlias = float | NDArray[np.float64]
"""A number, or one for each scenario."""


class Product(Struct, frozen=True):
    """Product with weights of one format on one machine."""

    stored: NumberFormat
    """Format of the weights."""
    arithmetic: str
    """Type the product runs in: a key of `Gpu.flops_per_s`."""
    activations: NumberFormat
    """Format of the input."""
    quantised: NumberFormat | None = None
    """Format that activations are converted to first; None where they stay."""
    note: str = ""
    """A conversion that a reader should know of, one sentence; may be empty."""

    @property
    def multiplied(self) -> NumberFormat:
        """Format in which activations meet the weights."""
        return self.activations if self.quantised is None else self.quantised

    @property
    def dequantises(self) -> bool:
        """True if weights are converted to the width of the activations."""
        return self.quantised is None and self.stored.element_bits < self.activations.element_bits

    @property
    def outliers(self) -> float:
        """Share of the input features that are multiplied in 16 bits as well. [1]"""
        return self.stored.outliers if self.quantised else 0.0


@dataclass(frozen=True, slots=True)
class Precision:
    """Formats of a deployment, and the arithmetic that follows on one GPU."""

    weights: NumberFormat
    """Format of the linear layers."""
    activations: NumberFormat
    """Format between operators; of norms, biases, embeddings and LM head unless those are wider."""
    kv: NumberFormat
    """Format of the cache."""
    head: NumberFormat
    """Format of token embedding and LM head, which quantised checkpoints leave in 16 bits."""
    linear_arithmetic: str
    attention_arithmetic: str
    """Types the products run in: keys of `Gpu.flops_per_s`."""
    notes: tuple[str, ...] = ()
    """Conversions that a reader should know of, one sentence each."""
    products: Mapping[str, Product] = field(default_factory=dict, hash=False)
    """Products with weights of each format that the network has, by name of the format."""

    def product(self, name: str = "") -> Product:
        """Product with weights of a format; of the linear layers if it has no name.

        Raises:
            UnknownNameError: The precision was not resolved for that format.
        """
        wanted = named(name).name if name else self.weights.name
        if wanted not in self.products:
            raise UnknownNameError(
                f"the precision was not resolved for {wanted} weights",
                hint="name the formats of the network when resolving",
            )
        return self.products[wanted]


def product(
    stored: NumberFormat, activations: NumberFormat, gpu: Gpu, *, integers: bool = False
) -> Product:
    """Choose the arithmetic of weights and activations on a GPU.

    Formats the GPU cannot multiply fall back to one named path, the arithmetic of the activations
    on converted weights, which vLLM, TensorRT-LLM and SGLang have; the note says so.

    Args:
        stored, activations: Formats of the weights and between operators.
        gpu: Where it runs.
        integers: True where llama.cpp's blocks are multiplied as integers of 8 bits.
    """
    if integers and stored.name in MULTIPLIED and gpu.flops_per_s.keys() >= INTEGERS:
        note = (
            f"{stored.name} weights are multiplied in int8 with inputs of {INPUTS}, 8 bits in "
            "blocks of 32: at most the int8 rate, and scales of blocks take a share of it"
        )
        return Product(stored, "int8", activations, named(INPUTS), note)
    if stored.dense:
        return _thinned(product(named(stored.dense), activations, gpu), stored, gpu)
    sixteen = activations.name
    if stored.element_bits >= 16:
        note = (
            "" if stored.name == sixteen else f"{stored.name} weights are multiplied in {sixteen}"
        )
        return Product(stored, sixteen, activations, note=note)
    usable = not stored.needs or stored.needs in gpu.flops_per_s
    native = next((name for name in stored.arithmetic if usable and name in gpu.flops_per_s), None)
    if native is not None:
        quantised = named(stored.activation) if stored.activation else None
        return Product(stored, native, activations, quantised, stored.claim)
    missing = "/".join(stored.arithmetic)
    if not missing:
        reason = "weight-only"
    elif usable:
        reason = f"{gpu.name} has no {missing} arithmetic"
    else:
        reason = f"{gpu.name} has no {missing} arithmetic with scales of groups"
    note = (
        f"{stored.name} weights are converted and multiplied in {sixteen} ({reason}): "
        "fewer bytes, the same FLOP rate"
    )
    return Product(stored, sixteen, activations, note=note)


def _thinned(dense: Product, stored: NumberFormat, gpu: Gpu) -> Product:
    """The product with zeros in the weights: faster only where the GPU skips their pattern."""
    if not stored.name.endswith(SPARSE):
        note = (
            f"{stored.name} weights are multiplied as dense ones: fewer bytes, the same FLOP rate, "
            "and the bytes only with kernels that decode a bitmap (Flash-LLM, arXiv 2309.10285); "
            "libraries of dense kernels gain nothing from scattered zeros"
        )
        return replace(dense, stored=stored, note=dense.note or note)
    arithmetic = f"{dense.arithmetic}{SPARSE}"
    gain = gpu.rate(arithmetic) / gpu.rate(dense.arithmetic)
    note = f"{stored.name} weights are multiplied at {gain:g} × the dense {dense.arithmetic} rate"
    return replace(dense, stored=stored, arithmetic=arithmetic, note=note)


def resolve(
    weights: str, kv: str, gpu: Gpu, *, also: Iterable[str] = (), integers: bool = False
) -> Precision:
    """Choose arithmetic for the formats asked for, on a GPU.

    Args:
        weights: Format of the linear layers.
        kv: Format of the cache, or ``"auto"``: that of the activations.
        gpu: Where it runs.
        also: Other formats that some linear layers of the network have.
        integers: True where llama.cpp's blocks are multiplied as integers of 8 bits.

    Raises:
        UnknownNameError: A format is not known, or not one a cache can have.
        MissingRateError: The GPU cannot multiply the format and nothing converts it.
    """
    stored = named(weights)
    if stored.name.endswith("-kv"):
        raise UnknownNameError(
            f"{stored.name} is a format of caches", hint=f"write `kv={stored.name}`"
        )
    activations = _activations(stored, gpu)
    formats = {each.name: each for each in (stored, activations, *map(named, also))}
    products = {
        name: product(each, activations, gpu, integers=integers) for name, each in formats.items()
    }
    cache = activations if kv == "auto" else named(kv)
    if cache.name not in KV_FORMATS and cache is not activations:
        raise UnknownNameError(
            f"a KV cache cannot be stored as {cache.name}",
            hint=f"cache formats: {', '.join(KV_FORMATS)}",
        )
    notes = [each.note for each in products.values() if each.note]
    if cache.width < activations.width:
        notes.append(f"the {cache.name} KV cache is converted and multiplied in {activations.name}")
    return Precision(
        weights=stored,
        activations=activations,
        kv=cache,
        head=activations,
        linear_arithmetic=products[stored.name].arithmetic,
        attention_arithmetic=activations.name,
        notes=tuple(notes),
        products=products,
    )


def _activations(stored: NumberFormat, gpu: Gpu) -> NumberFormat:
    """Format between operators: that of the weights from 16 bits on, else 16 bits."""
    if stored.dense:
        return _activations(named(stored.dense), gpu)
    if stored.element_bits >= 16:
        if stored.name in gpu.flops_per_s:
            return stored
        other = next((n for n in ("fp16", "bf16", "fp32") if n in gpu.flops_per_s), None)
        hint = f"try `weights={other}`; {gpu.name} has " + ", ".join(gpu.flops_per_s)
        raise MissingRateError(f"{gpu.name} has no {stored.name} arithmetic", hint=hint)
    sixteen = next((name for name in ("bf16", "fp16") if name in gpu.flops_per_s), None)
    if sixteen is None:
        raise MissingRateError(
            f"{gpu.name} has no 16-bit arithmetic for {stored.name} weights",
            hint=f"it has {', '.join(gpu.flops_per_s)}",
        )
    return FORMATS[sixteen]


def quantisation(made: Product, tokens: Value, k: Value) -> tuple[Value, Value]:
    """Bytes of activations on their way into a product: read, and written as it wants them. [B]

    Source: a kernel of its own, as vLLM and TensorRT-LLM run it where it is not fused into the norm
    before; scales of rows and groups are written too.

    Args:
        made: The product.
        tokens: Rows of activations. [token]
        k: Input width. [1]

    Examples:
        >>> made = Product(named("fp8-block"), "fp8", named("bf16"), named("fp8-1x128"))
        >>> quantisation(made, 1, 128)  # 128 values, then one fp32 scale
        (256.0, 132.0)
    """
    if made.quantised is None:
        return 0.0, 0.0
    elements = tokens * k
    written = elements * made.quantised.width + tokens * made.quantised.row_bits / BITS_PER_BYTE
    return elements * made.activations.width, written


def dequantisation(made: Product, m: Value, n: Value, k: Value, fused: Value = 1.0) -> Value:
    """Size of the copy that weights on their way into a product are converted to, if any. [B]

    It is written, and read, as often as the matrix is read.

    Source: fused kernels (Marlin, arXiv 2408.11743) convert in registers and move nothing more;
    so does bitsandbytes for a few tokens (``gemm_4bit``), which writes a copy of the matrix and
    reads it back when more are computed (``_dequant_linear_fallback`` of
    ``bitsandbytes/backends/cuda/ops.py``, 0.50.2).

    Args:
        made: The product.
        m: Tokens. [token]
        n, k: Output and input width of the matrix. [1]
        fused: Tokens up to which they are converted inside the product. [token]
    """
    if not (made.dequantises and made.stored.unfused):
        return 0.0
    copy: Value = np.where(np.asarray(m) > fused, n * k * made.activations.width, 0.0)[()]
    return copy
