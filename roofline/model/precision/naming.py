"""Number formats by the names people type, formats of sparse weights included."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from typing import Final

from roofline.errors import InputError, UnknownNameError
from roofline.hardware.machine import SPARSE
from roofline.model.precision.formats import BLOCKS, FORMATS, NumberFormat, grouped, in_blocks
from roofline.records import replace

_SUFFIX: Final = re.compile(r"(.+)-(2:4|sparse0\.[0-9]{1,6})")
_SHARE: Final = re.compile(r"0?\.[0-9]{1,6}")


def split(name: str) -> tuple[str, str]:
    """Name of the dense format, and the pattern of zeros; empty without one.

    >>> split("bf16-2:4"), split("int4-g64")
    (('bf16', '2:4'), ('int4-g64', ''))
    """
    found = _SUFFIX.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def suffix(value: str) -> str:
    """Suffix of the name of a format with a pattern of zeros.

    Args:
        value: ``"2:4"``, or the share of weights that are zero: ``"0.5"``.

    Raises:
        InputError: It is neither.

    Examples:
        >>> suffix("2:4"), suffix(".50")
        ('-2:4', '-sparse0.5')
    """
    if value == "2:4":
        return SPARSE
    if _SHARE.fullmatch(value) and float(value):
        return f"-sparse{float(value):g}" if "e" not in f"{float(value):g}" else f"-sparse{value}"
    raise InputError(
        f"sparsity is {value[:40]!r}",
        hint="give 2:4, or the share of weights that are zero, like 0.5",
    )


@cache
def thinned(dense: NumberFormat, pattern: str) -> NumberFormat:
    """Format that stores only the weights that are not zero; scales stay as they are.

    Source: Mishra et al. 2021 (arXiv 2104.08378) for 2:4; for the bitmap, one bit per weight.

    Args:
        dense: Format of the values that stay.
        pattern: ``"2:4"``: half of the values, and 2 bits for the place of each, b/2 + 1 bits per
            weight. ``"sparse0.7"``: three tenths of the values and a bitmap, 0.3·b + 1 bits per
            weight.

    Raises:
        InputError: The result would take more than the dense format.

    Examples:
        >>> bf16 = NumberFormat("bf16", 16)
        >>> thinned(bf16, "2:4").bits, thinned(bf16, "sparse0.75").bits
        (9.0, 5.0)
    """
    structured = pattern == "2:4"
    kept = Fraction(1, 2) if structured else 1 - Fraction(pattern.removeprefix("sparse"))
    how = "2 bits for the place of each kept value" if structured else "a bitmap, 1 bit per weight"
    places = 2 * kept if structured else Fraction(1)
    out = replace(
        dense,
        name=f"{dense.name}-{pattern}",
        kept=kept,
        place_bits=places,
        dense=dense.name,
        source=f"{float(kept):g} of the values, {how}; {dense.source}",
    )
    if out.exact_bits >= dense.exact_bits:
        raise InputError(
            f"{dense.name} weights with {float(1 - kept):g} of them zero take {out.bits:g} bits "
            f"each, {dense.bits:g} as they are",
            hint="leave them dense, or make more of them zero",
        )
    return out


ALIASES: Final[Mapping[str, str]] = {
    "float32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "e4m3": "fp8",
    "fp8-e4m3": "fp8",
    "fp8-tensor": "fp8",
    "fp8-per-tensor": "fp8",
    "e5m2": "fp8-e5m2",
    "fp8-channel": "fp8-row",
    "fp8-per-channel": "fp8-row",
    "fp8-block128": "fp8-block",
    "fp8-128x128": "fp8-block",
    "fp8-w8a16": "fp8-wo",
    "w8a8": "int8",
    "int8-w8a8": "int8",
    "smoothquant": "int8",
    "w8a16": "int8-wo",
    "int8-w8a16": "int8-wo",
    "llm-int8": "llm.int8",
    "llm.int8()": "llm.int8",
    "bnb-int8": "llm.int8",
    "bnb-nf4": "nf4",
    "qlora": "nf4",
    "squeezellm": "squeezellm-3",
    "w4a16": "int4",
    "w3a16": "int3",
    "w4a8": "int4-w4a8",
    "w4a4": "nvfp4",
    "nvfp4-w4a4": "nvfp4",
    "mxfp4-w4a4": "mxfp4",
    "kv4": "int4-kv",
    "kv8": "int8-kv",
}
_GROUPED: Final = re.compile(
    r"(?:(?:awq|gptq|omniquant)-)?(?:int(?P<bits>[2348]))?(?:-?(?:awq|gptq|omniquant))?"
    r"(?:-g(?P<group>[1-9]\d{0,4})|(?P<row>-row))?(?P<zero>-sym|-asym|-zp16)?"
    r"(?:-keep(?P<kept>0?\.[0-9]{1,6}))?"
)
_MIX: Final = re.compile(r"(?P<block>q[2-5]-k)-[sml]")
"""Files of llama.cpp that are mostly in one format: which matrices are not is known by network."""
_ZERO: Final = {None: None, "-asym": None, "-sym": 0, "-zp16": 16}
_EXAMPLES: Final = ("int4", "int4-awq", "int4-gptq", "awq", "gptq", "omniquant", "int3", "int2")
"""Grouped names that a misspelling may have meant."""


@cache
def named(name: str) -> NumberFormat:
    """Number format of a name; bits of integers in groups follow from the name.

    Args:
        name: A name of `FORMATS` or an alias, in any case; or bits, method, group and zero point,
            as in ``"int4-awq"``, ``"int4-g64"``, ``"gptq-int3-g128"``, ``"int4-g32-sym"``,
            ``"int4-g128-zp16"``. Groups are of 128 unless said; ``-row`` shares over a whole row. A
            share of the weights that stays in 16 bits may follow, ``"int4-awq-keep0.01"``, or a
            pattern of zeros, ``"bf16-2:4"``, ``"bf16-sparse0.5"``.

    Raises:
        UnknownNameError: There is none.

    Examples:
        >>> named("awq").bits, named("int4-g64").bits, named("int4-g128-zp16").bits
        (4.15625, 4.3125, 4.25)
    """
    found = _find(name.strip().lower().replace("_", "-"))
    if found is not None:
        return found
    known = (*FORMATS, *ALIASES, *_EXAMPLES, *BLOCKS)
    close = get_close_matches(name.strip().lower()[:40], known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    shown = name if len(name) <= 40 else name[:37] + "..."
    raise UnknownNameError(
        f"no number format {shown!r}",
        hint=f"{hint}formats: {', '.join(FORMATS)}, int4, int4-g64, int3-g128-sym and the like, "
        "and those of llama.cpp, such as q4_k and q8_0",
    )


def _find(name: str) -> NumberFormat | None:
    stem, pattern = split(name)
    if pattern:
        dense = _find(stem)
        return None if dense is None else thinned(dense, pattern)
    name = ALIASES.get(name, name)
    if name in FORMATS:
        return FORMATS[name]
    mix = _MIX.fullmatch(name)
    block = mix["block"] if mix else name
    if block in BLOCKS:
        return in_blocks(block)
    match = _GROUPED.fullmatch(name)
    if match is None or not any(word in name for word in ("int", "awq", "gptq", "omniquant")):
        return None
    bits = int(match["bits"] or 4)
    if bits == 8 and not (match["group"] or match["row"] or "q" in name):
        return None
    group = 0 if match["row"] else int(match["group"] or 128)
    kept = Fraction(match["kept"] or 0)
    return grouped(bits, group, zero_bits=_ZERO[match["zero"]], protected=kept)
