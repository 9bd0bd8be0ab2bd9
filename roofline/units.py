"""Quantities as people write them, and as the formulas want them.

Files say ``3.35 TB/s``; formulas see ``3.35e12``. This module is the only place where a prefix
becomes a power of ten, so it is the only place that can get one wrong.
"""

import math
import re
from decimal import Decimal
from typing import Final

from roofline.errors import QuantityError

PREFIX: Final = {
    "": 1.0,
    "n": 1e-9,
    "µ": 1e-6,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
SECONDS_PER_HOUR: Final = 3600.0
SECONDS_PER_DAY: Final = 86400.0
HOURS_PER_YEAR: Final = 8766.0
MILLION: Final = 1e6
BITS_PER_BYTE: Final = 8.0
CERTAIN: Final = 0.99
"""Largest probability that is written as a number; beyond it, ``"> 99%"``."""

_DECIMAL: Final = ("P", "T", "G", "M", "k", "", "m", "µ", "n")
_COUNTED: Final = ("B", "FLOP")
_WHOLE: Final = ("P", "T", "G", "M", "k", "")
_BINARY: Final = ("Ti", "Gi", "Mi", "Ki", "")
_LASTS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(\d{1,3}):([0-5]\d)|(\d{1,9}(?:\.\d{1,9})?)\s*(s|min|h|d)")
_SHORT: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)([kmgKMG])")
_TIMES: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_MAX_CHARACTERS: Final = 200
# Possessive quantifiers: giving characters back never helps here, and takes quadratic time.
_QUANTITY: Final = re.compile(
    r"\s*+([-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]{1,3})?)\s*+(\S*+)\s*+"
)


def written_out(text: str) -> str:
    """A count with a letter behind it in full, as vLLM reads it; any other text as it is.

    Small letters are decimal, capitals binary.

    >>> written_out("32k"), written_out("32K"), written_out("1.5k"), written_out("fp8")
    ('32000', '32768', '1500', 'fp8')
    """
    if (found := _SHORT.fullmatch(text)) is None:
        return text
    return f"{(Decimal(found[1]) * _TIMES[found[2]]).normalize():f}"


def parse(text: str, unit: str) -> float:
    """Read a finite quantity in base units.

    Args:
        text: Number, optional prefix and unit: ``"3.35 TB/s"``.
        unit: Base unit it must be in: ``"B/s"``; empty for a plain number.

    Raises:
        QuantityError: No number, another unit, an unknown prefix, or a number that is not finite.

    Examples:
        >>> parse("3.35 TB/s", "B/s")
        3350000000000.0
        >>> parse("80 GiB", "B") == 80 * 2**30
        True
        >>> parse("132", "")
        132.0
    """
    example = f"1.5 G{unit}" if unit else "132"
    quoted = repr(text if len(text) <= 60 else f"{text[:60]}…")
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if match is None:
        raise QuantityError(f"{quoted} is not a quantity", hint=f"write it like '{example}'")
    number, written = match.groups()
    prefix = written.removesuffix(unit) if written.endswith(unit) else None
    if prefix is None or prefix not in PREFIX or (prefix and not unit):
        wanted = unit or "a plain number"
        raise QuantityError(f"{quoted} is not in {wanted}", hint=f"write it like '{example}'")
    # Decimal arithmetic, so that 66.9 T is the float nearest to 66.9e12.
    value = float(Decimal(number) * Decimal(repr(PREFIX[prefix])))
    if not math.isfinite(value):
        raise QuantityError(f"{quoted} is too large", hint=f"write it like '{example}'")
    return value


def duration(text: str) -> float:
    """Read a time that may have minutes, hours or days. [s]

    Raises:
        QuantityError: It is no such time.

    Examples:
        >>> duration("90 s"), duration("5min"), duration("9:30"), duration("2d")
        (90.0, 300.0, 34200.0, 172800.0)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise QuantityError(f"{text!r:.40} is no time", hint="write it like 90s, 5min, 9h or 9:30")
    hours, minutes, number, unit = match.groups()
    if hours is not None:
        return (int(hours) + int(minutes) / 60.0) * SECONDS_PER_HOUR
    return float(number) * _LASTS[unit]


def show(value: float, unit: str, digits: int = 3) -> str:
    """Write a base-unit value for people, with a decimal prefix.

    >>> show(3.35e12, "B/s")
    '3.35 TB/s'
    >>> show(2.5e-6, "s")
    '2.50 µs'
    >>> show(0.0, "s")
    '0 s'

    What is counted has no thousandths:

    >>> show(0.52, "B")
    '0.520 B'
    """
    return _scaled(value, unit, digits, _WHOLE if unit in _COUNTED else _DECIMAL)


def show_binary(value: float, digits: int = 3) -> str:
    """Write a device capacity with a binary prefix.

    >>> show_binary(80 * 2.0**30)
    '80.0 GiB'
    """
    return _scaled(value, "B", digits, _BINARY)


def _scaled(value: float, unit: str, digits: int, prefixes: tuple[str, ...]) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}".rstrip()
    scaled, prefix = value, ""
    for prefix in prefixes:
        scaled = value / PREFIX[prefix]
        # Round first: 999.96 at three digits is 1.00 k, not 1000.
        if abs(float(f"{scaled:.{digits}g}")) >= 1:
            break
    return f"{significant(scaled, digits)} {prefix}{unit}".rstrip()


def significant(value: float, digits: int = 3) -> str:
    """Write a number with that many significant digits, without an exponent up to a million.

    >>> significant(5.9), significant(2290.4), significant(0.0123456)
    ('5.90', '2,290', '0.0123')
    """
    rounded = float(f"{value:.{digits}g}")
    if 10**digits <= abs(rounded) < MILLION:
        return f"{rounded:,.0f}"
    return f"{value:#.{digits}g}".rstrip(".")


def chance(probability: float) -> str:
    """Write a probability, of which none is a certainty.

    >>> print(chance(0.9999999), chance(0.874), chance(0.0), sep=", ")
    > 99%, 87%, < 1%
    """
    if probability > CERTAIN:
        return f"> {CERTAIN:.0%}"
    return f"< {1 - CERTAIN:.0%}" if probability < 1 - CERTAIN else f"{probability:.0%}"


def counted(number: int, noun: str) -> str:
    """So many of something, with a noun whose plural takes an s, or es after ch.

    >>> counted(1, "GPU"), counted(55313796, "GPU"), counted(2, "micro-batch")
    ('1 GPU', '55,313,796 GPUs', '2 micro-batches')
    """
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def dollars(value: float) -> str:
    """Write an amount of money to the cent, and less than ten cents with two digits.

    >>> dollars(0.3), dollars(1234.5), dollars(0.00456)
    ('$0.30', '$1,234.50', '$0.0046')
    """
    return f"${value:,.2f}" if abs(value) >= 0.1 or not value else f"${significant(value, 2)}"


def count(value: float) -> str:
    """Write a count with thousands separators.

    >>> count(8030261248)
    '8,030,261,248'
    """
    return f"{value:,.0f}"
