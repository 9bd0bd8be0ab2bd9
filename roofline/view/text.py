"""Values and names as a reader sees them. Names come from files that anyone may have written."""

import math
import re
from decimal import Decimal
from typing import Any, Final, TypeGuard

from msgspec import Struct

from roofline.units import show, show_binary

UNKNOWN: Final = "–"
LABEL_LENGTH: Final = 28

# Control characters, marks that reorder or hide text, and halves of a pair.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_PLOTLY: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " ", "\t": " "})
_JSON: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Amount(Struct, frozen=True):
    """A number and its unit, apart so that a column can align both."""

    number: str
    unit: str = ""

    def __str__(self) -> str:
        """Number and unit on one line."""
        return f"{self.number}\N{NO-BREAK SPACE}{self.unit}" if self.unit else self.number


def clean(text: object) -> str:
    """Text without characters that hide or reorder it.

    >>> clean(f"a{chr(0)}b")
    'a�b'
    """
    return _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(text))


def label(text: object, length: int = LABEL_LENGTH) -> str:
    """Text for a figure: short, and without a meaning in plotly's own markup.

    >>> label("<b>bold</b>")
    '&lt;b&gt;bold&lt;/b&gt;'
    """
    return shorten(clean(text), length).translate(_PLOTLY)


def shorten(text: str, length: int) -> str:
    """Text cut to a length, with an ellipsis where something was cut.

    >>> shorten("attention", 6)
    'atten…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def to_json(value: Any) -> str:
    r"""JSON that cannot end the element it stands in; what is not finite becomes null.

    Numbers keep six digits, more than a screen can show.

    >>> to_json(["</script>", float("nan")])
    '["\\u003c/script\\u003e",null]'
    """
    import json

    plain = json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))
    return plain.translate(_JSON)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value


def is_number(value: object) -> TypeGuard[float]:
    """True for a finite number; true and false are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def amount(value: object, unit: str, digits: int = 3) -> Amount:
    """A base-unit value in the words of its field.

    >>> amount(0.0053, "s"), amount(0.3459, "$").number
    (Amount(number='5.30', unit='ms'), '$0.346')
    """
    if not is_number(value):
        return Amount(UNKNOWN if value is None or isinstance(value, float) else clean(value))
    number = float(str(value))
    if unit.startswith("$"):
        text = f"{number:,.2f}" if number >= 1 else f"{Decimal(_rounded(number, digits)):f}"
        cents = len(text.partition(".")[2]) >= 2
        return Amount(f"${text if cents else f'{number:.2f}'}", unit[1:])
    if unit == "s" and number >= 1000:  # nobody counts thousands of seconds by prefix
        return Amount(f"{number:,.0f}", unit)
    if unit == "parameter":  # what is counted is not said again: 8.03 G
        figures, _, prefixed = show(number, "", digits).partition(" ")
        return Amount(figures, prefixed)
    if unit in ("s", "B", "B/s", "FLOP", "FLOP/s", "J", "W", "Wh", "g"):
        figures, _, prefixed = show(number, unit, digits).partition(" ")
        return Amount(figures, prefixed)
    return Amount(plain(number, digits), unit)


def between(low: float, high: float, unit: str = "") -> Amount:
    r"""A range; its unit is said once where both ends have the same.

    >>> between(0.668, 0.751, "s"), between(0.00095, 0.00105, "s").number
    (Amount(number='668 – 751', unit='ms'), '950\xa0µs – 1.05')
    """
    first, last = amount(low, unit), amount(high, unit)
    start = first.number if first.unit == last.unit else str(first)
    return Amount(f"{start} – {last.number.removeprefix('$')}", last.unit)


def interval(low: object, high: object, unit: str) -> Amount | None:
    """Range of an interval; None where an end is not known, or both are the same."""
    return between(low, high, unit) if is_number(low) and is_number(high) and low < high else None


def binary(value: float) -> Amount:
    """Device memory, in the powers of two that it is sold in.

    >>> binary(80 * 2.0**30)
    Amount(number='80.0', unit='GiB')
    """
    number, _, prefixed = show_binary(value).partition(" ")
    return Amount(number, prefixed)


def plain(number: float, digits: int = 3) -> str:
    """A number without a unit: separators where it is large, few digits where it is small.

    >>> plain(27875), plain(15.936), plain(0.25)
    ('27,875', '15.9', '0.25')

    One that was rounded has all of its digits:

    >>> plain(17), plain(17.02)
    ('17', '17.0')
    """
    if abs(number) >= 10.0 ** (digits - 1):
        return f"{number:,.0f}" if abs(number) < 10.0**15 else f"{number:.{digits}g}"
    return _rounded(number, digits)


def _rounded(number: float, digits: int) -> str:
    short = f"{number:.{digits}g}"
    return short if float(short) == number else f"{number:#.{digits}g}".removesuffix(".")


def percent(share: float) -> str:
    """A share for people.

    >>> print(percent(0.4633), percent(0.0004), percent(0.034), sep=", ")
    46 %, < 0.1 %, 3.4 %
    """
    share = round(share, 9)  # what rounding left is no share
    hundredths = share * 100
    whole = abs(hundredths) >= 9.95 and not 99.5 <= hundredths < 100  # all is not nearly all
    number = f"{hundredths:.{0 if whole or not share else 1}f}"
    shown = "< 0.1 %" if 0 < share < 0.001 else f"{number} %"
    return shown.replace(" ", "\N{NO-BREAK SPACE}")
