"""Number formats: bits of an element, and scales that groups of elements share.

Formats of llama.cpp keep rows in blocks, and are stated by the sizes of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Final

from roofline.units import BITS_PER_BYTE

OUTLIERS: Final = 0.001
"""Input features that LLM.int8() multiplies in 16 bits. Dettmers et al. 2022 (arXiv 2208.07339):
more than 99.9 % of values stay in 8 bits."""


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A way to store numbers."""

    name: str
    """``"bf16"``, ``"int4"``."""
    element_bits: int
    """Bits of one value alone. [bit]"""
    arithmetic: tuple[str, ...] = ()
    """Types it can be multiplied in without conversion, best first; none where activations stay in
    16 bits and weights are converted on the way to the multiplier."""
    shared: tuple[tuple[int, int], ...] = ()
    """Scales and zero points: bits, and the number of values that share them. [bit, 1]"""
    row_bits: int = 0
    """Bits that each row of a matrix has beside its values, such as one scale for it. [bit]"""
    activation: str = ""
    """Format that activations are converted to before the product; empty where they stay."""
    needs: str = ""
    """Another arithmetic type that a machine must have, as a sign of the scales it multiplies."""
    outliers: float = 0.0
    """Share of the input features that is multiplied in 16 bits. [1]"""
    unfused: bool = False
    """True if weights are converted into a 16-bit copy in memory, not inside the product, when more
    than one token is computed."""
    protected: Fraction = Fraction(0)
    """Share of the values that are kept in 16 bits instead. [1]"""
    claim: str = ""
    """A published figure that does not follow from bytes and rates, one sentence."""
    source: str = "width of the type"
    """Source of the bits."""
    kept: Fraction = Fraction(1)
    """Share of the values that are stored, where the others are zero. [1]"""
    place_bits: Fraction = Fraction(0)
    """Bits per value, zeros included, that say where the stored ones are. [bit]"""
    dense: str = ""
    """Name of the format of the values, where only some are stored."""
    width: float = field(init=False, repr=False, compare=False)
    """Bytes per value, what groups share included. [B]"""

    def __post_init__(self) -> None:
        """Work the width out once: it is asked for at every operator."""
        object.__setattr__(self, "width", float(self.exact_bits) / BITS_PER_BYTE)

    @property
    def exact_bits(self) -> Fraction:
        """Bits per value, those that groups share included and those of rows left out. [bit]"""
        extra = sum((Fraction(bits, values) for bits, values in self.shared), Fraction())
        narrow = self.kept * self.element_bits + self.place_bits + extra
        return (1 - self.protected) * narrow + self.protected * 16

    @property
    def bits(self) -> float:
        """Bits per value, scales and zero points of groups included. [bit]"""
        return float(self.exact_bits)

    @property
    def expression(self) -> str:
        """The bits as a sum: ``"4 + 16/128 + 4/128 = 4.15625"``."""
        element = str(self.element_bits)
        if self.dense:
            element = f"{float(self.kept):g}·{element} + {float(self.place_bits):g}"
        terms = [element, *(f"{bits}/{values}" for bits, values in self.shared)]
        total = f" = {self.bits:.7g}" if self.shared or self.dense else ""
        row = f", and {self.row_bits} per row" if self.row_bits else ""
        said = " + ".join(terms)
        if self.protected:
            said = f"{float(1 - self.protected):g}·({said}) + {float(self.protected):g}·16"
        return said + total + row

    def matrix_bytes(self, n: int, k: int) -> Fraction:
        """Size of a matrix of n rows (outputs) and k columns, exactly. [B]

        Groups run along k; a group that k does not fill is counted by the share it fills.
        """
        return (n * k * self.exact_bits + n * self.row_bits) / int(BITS_PER_BYTE)


_NONE: Final = Fraction(0)
_TENSOR = "one scale per tensor, left out"
_BNB = "bitsandbytes; Dettmers et al. 2023 (arXiv 2305.14314)"
_MX = "OCP Microscaling Formats v1.0: groups of 32 with an 8-bit scale"
_NV = "NVIDIA: groups of 16 with an fp8 scale; one fp32 scale per tensor left out"
_SPARSE = "; 0.45 % of values as fp16 with a 32-bit place; Kim et al. 2024 (arXiv 2306.07629)"
_INT8 = "8 bits with an fp32 scale per output; activations per token; SmoothQuant (2211.10438)"
_CLAIM = (
    "LLM.int8() chooses its 16-bit columns at run time: its kernels are launched one by one, "
    "outside CUDA graphs, and each launch takes the host's time (assumed). Published: 15–23 % "
    "slower than fp16 (BLOOM-176B, Hugging Face 2022); up to 13B slower as well (arXiv 2208.07339)"
)
_TERNARY = "four of −1, 0 and 1 to a byte; Ma et al. 2025 (arXiv 2504.12285); "
_MX8, _NV4, _MX4 = ((8, 32),), ((8, 16),), ((8, 32),)

FORMATS: Final[Mapping[str, NumberFormat]] = {
    entry.name: entry
    for entry in (
        NumberFormat("fp32", 32, ("fp32",)),
        NumberFormat(
            "tf32", 32, ("tf32",), source="stored as fp32, multiplied with 10 mantissa bits"
        ),
        NumberFormat("bf16", 16, ("bf16",)),
        NumberFormat("fp16", 16, ("fp16",)),
        NumberFormat("fp8", 8, ("fp8",), activation="fp8", source=f"8 bits (e4m3); {_TENSOR}"),
        NumberFormat("fp8-e5m2", 8, ("fp8",), activation="fp8", source=f"8 bits (e5m2); {_TENSOR}"),
        NumberFormat(
            "fp8-row",
            8,
            ("fp8",),
            row_bits=32,
            activation="fp8-row",
            source="8 bits with an fp32 scale per output; activations per token",
        ),
        NumberFormat(
            "fp8-block",
            8,
            ("fp8",),
            shared=((32, 128 * 128),),
            activation="fp8-1x128",
            source="DeepSeek-V3 (2412.19437): blocks of 128×128 with an fp32 scale",
        ),
        NumberFormat(
            "fp8-1x128",
            8,
            ("fp8",),
            shared=((32, 128),),
            activation="fp8-1x128",
            source="DeepSeek-V3 (2412.19437): groups of 128 with an fp32 scale, for activations",
        ),
        NumberFormat("fp8-wo", 8, source=f"8 bits; {_TENSOR}"),
        NumberFormat(
            "mxfp8", 8, ("fp8",), shared=_MX8, activation="mxfp8", needs="fp4", source=_MX
        ),
        NumberFormat("int8", 8, ("int8",), row_bits=32, activation="int8", source=_INT8),
        NumberFormat("int8-wo", 8, row_bits=16, source="8 bits with an fp16 scale per output"),
        NumberFormat(
            "llm.int8",
            8,
            ("int8",),
            row_bits=32,
            activation="int8",
            outliers=OUTLIERS,
            claim=_CLAIM,
            source="bitsandbytes: 8 bits with an fp32 scale per output; arXiv 2208.07339",
        ),
        NumberFormat(
            "nf4",
            4,
            shared=((8, 64), (32, 64 * 256)),
            unfused=True,
            source=f"{_BNB}: groups of 64 with an 8-bit scale, 256 of which share an fp32 one",
        ),
        NumberFormat(
            "nf4-single",
            4,
            shared=((32, 64),),
            unfused=True,
            source=f"{_BNB}: groups of 64 with an fp32 scale",
        ),
        NumberFormat(
            "squeezellm-3",
            3,
            shared=((27, 125),),
            row_bits=8 * 16,
            source="3 bits into a table of 8 fp16 values per row" + _SPARSE,
        ),
        NumberFormat(
            "squeezellm-4",
            4,
            shared=((27, 125),),
            row_bits=16 * 16,
            source="4 bits into a table of 16 fp16 values per row" + _SPARSE,
        ),
        NumberFormat(
            "int4-w4a8",
            4,
            ("fp8",),
            shared=((16, 128),),
            activation="fp8",
            source="TensorRT-LLM W4A8 AWQ: groups of 128 with an fp16 scale, fp8 activations",
        ),
        NumberFormat("ternary", 2, ("int8",), activation="int8", source=_TERNARY + _TENSOR),
        NumberFormat("mxfp4", 4, ("fp4",), shared=_MX4, activation="mxfp4", source=_MX),
        NumberFormat(
            "mxfp4-w4a8", 4, ("fp8",), shared=_MX4, activation="mxfp8", needs="fp4", source=_MX
        ),
        NumberFormat("mxfp4-w4a16", 4, shared=_MX4, source=_MX),
        NumberFormat("nvfp4", 4, ("fp4",), shared=_NV4, activation="nvfp4", source=_NV),
        NumberFormat("nvfp4-w4a16", 4, shared=_NV4, source=_NV),
        NumberFormat(
            "int8-kv",
            8,
            shared=((16, 128),),
            source="8 bits with an fp16 scale per token and head, for heads of 128",
        ),
        NumberFormat(
            "int4-kv",
            4,
            shared=((32, 128),),
            source="4 bits with an fp16 scale and zero per token and head, for heads of 128",
        ),
    )
}
"""Formats with a name of their own. Integers in groups are computed: see `naming.named`."""

KV_FORMATS: Final = ("fp32", "bf16", "fp16", "fp8", "fp8-e5m2", "int8", "int8-kv", "int4-kv",
                     "nvfp4")  # fmt: skip
"""Formats of a cache."""


@cache
def grouped(
    bits: int, group: int, *, zero_bits: int | None = None, protected: Fraction = _NONE
) -> NumberFormat:
    """Weight-only integers in groups that share an fp16 scale and a zero point.

    Source: Lin et al. 2023 (arXiv 2306.00978), Frantar et al. 2022 (arXiv 2210.17323), and Shao et
    al. 2023 (arXiv 2308.13137), whose OmniQuant learns the same scales and zero points; order of
    inputs that GPTQ stores beside the weights is left out.

    Args:
        bits: Of one weight. [bit]
        group: Weights that share a scale; 0 for all of a row. [1]
        zero_bits: Of the zero point: as many as a weight where None (packed, as AWQ and GPTQ store
            it), 16 unpacked, 0 without one. [bit]
        protected: Share of the weights that stay in 16 bits, as those of the 0.1–1 % of input
            features that matter most (section 3.1 of AWQ, which scales them instead). [1]

    Examples:
        >>> grouped(4, 128).expression
        '4 + 16/128 + 4/128 = 4.15625'
        >>> grouped(4, 32, zero_bits=0).bits
        4.5
        >>> grouped(4, 128, protected=Fraction(1, 100)).expression
        '0.99·(4 + 16/128 + 4/128) + 0.01·16 = 4.274687'
    """
    zero = bits if zero_bits is None else zero_bits
    style = {bits: "", 0: "-sym", 16: "-zp16"}[zero]
    size = f"-g{group}" if group else "-row"
    name = f"int{bits}{size}{style}"
    what = {bits: f"a packed {bits}-bit zero", 0: "no zero", 16: "an fp16 zero"}[zero]
    overhead = tuple((each, group) for each in (16, zero) if each and group)
    return NumberFormat(
        _SHORT.get(name, name) + (f"-keep{float(protected):g}" if protected else ""),
        bits,
        protected=protected,
        shared=overhead,
        row_bits=0 if group else 16 + zero,
        source=f"groups of {group or 'a row'} with an fp16 scale and {what} "
        "(AWQ arXiv 2306.00978, GPTQ arXiv 2210.17323)"
        + f"; {float(protected):g} of the weights in 16 bits"
        * bool(protected),
    )


_SHORT: Final = {f"int{bits}-g128": f"int{bits}" for bits in (2, 3, 4)}
"""Groups of 128 with a packed zero are what people mean by the bits alone."""


BLOCKS: Final[Mapping[str, tuple[int, int, int]]] = {
    "q1-0": (1, 128, 18),
    "q4-0": (4, 32, 18),
    "q4-1": (4, 32, 20),
    "q5-0": (5, 32, 22),
    "q5-1": (5, 32, 24),
    "q8-0": (8, 32, 34),
    "q8-1": (8, 32, 36),
    "q2-k": (2, 256, 84),
    "q3-k": (3, 256, 110),
    "q4-k": (4, 256, 144),
    "q5-k": (5, 256, 176),
    "q6-k": (6, 256, 210),
    "q8-k": (8, 256, 292),
    "iq1-s": (1, 256, 50),
    "iq1-m": (1, 256, 56),
    "iq2-xxs": (2, 256, 66),
    "iq2-xs": (2, 256, 74),
    "iq2-s": (2, 256, 82),
    "iq3-xxs": (3, 256, 98),
    "iq3-s": (3, 256, 110),
    "iq4-nl": (4, 32, 18),
    "iq4-xs": (4, 256, 136),
    "tq1-0": (1, 256, 54),
    "tq2-0": (2, 256, 66),
}
"""Bits of an element, elements of a block [1], and bytes of a block by format.

Source: the structures ``block_*`` of ggml, ``ggml/src/ggml-common.h`` of
https://github.com/ggml-org/llama.cpp.
"""

MULTIPLIED: Final = frozenset(BLOCKS) - {"q8-1", "q8-k", "iq1-m", "tq1-0", "tq2-0"}
"""Formats whose values are multiplied as integers of 8 bits, with inputs in blocks of ``q8-1``.

Source: ggml_cuda_should_use_mmq, ``ggml/src/ggml-cuda/mmq.cu`` at 027ef876: on NVIDIA devices with
int8 tensor cores always, since pull request 8075 (June 2024).
"""
INPUTS: Final = "q8-1"
"""Format that their inputs are converted to."""


@cache
def in_blocks(name: str) -> NumberFormat:
    """Weight-only format of llama.cpp, a name of `BLOCKS`.

    >>> in_blocks("q4-k").bits, in_blocks("q6-k").expression
    (4.5, '6 + 144/256 = 6.5625')
    """
    bits, values, size = BLOCKS[name]
    return NumberFormat(
        name,
        bits,
        shared=((8 * size - bits * values, values),),
        source=f"ggml: blocks of {values} in {size} bytes",
    )
