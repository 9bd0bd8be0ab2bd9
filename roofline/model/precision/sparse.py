"""Formats that leave out zeros: 2:4 structured, and bitmaps of any pattern."""

import re
from dataclasses import replace
from fractions import Fraction
from typing import Final

from roofline.errors import InputError
from roofline.hardware.machine import SPARSE as PATTERN
from roofline.model.precision.formats import Format

__all__ = ["PATTERN", "split", "suffix", "thinned"]

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
    """What a pattern adds to the name of a format.

    Args:
        value: ``"2:4"``, or the share of weights that are zero: ``"0.5"``.

    Raises:
        InputError: It is neither.

    Examples:
        >>> suffix("2:4"), suffix(".50")
        ('-2:4', '-sparse0.5')
    """
    if value == "2:4":
        return PATTERN
    if _SHARE.fullmatch(value) and float(value):
        return f"-sparse{float(value):g}" if "e" not in f"{float(value):g}" else f"-sparse{value}"
    raise InputError(
        f"sparsity is {value[:40]!r}",
        hint="give 2:4, or the share of weights that are zero, like 0.5",
    )


def thinned(dense: Format, pattern: str) -> Format:
    """The format with zeros left out; scales stay as they are.

    Source: Mishra et al. 2021 (arXiv 2104.08378) for 2:4; for the bitmap, one bit per weight.

    Args:
        dense: Format of the values that stay.
        pattern: ``"2:4"``: half of the values, and 2 bits for the place of each, b/2 + 1 bits per
            weight. ``"sparse0.7"``: three tenths of the values and a bitmap, 0.3·b + 1 bits per
            weight.

    Raises:
        InputError: The result would take more than the dense format.

    Examples:
        >>> thinned(Format("bf16", 16), "2:4").bits, thinned(Format("bf16", 16), "sparse0.75").bits
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
