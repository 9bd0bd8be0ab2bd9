"""Values and lines of derivations as a reader sees them."""

from collections.abc import Iterator
from typing import Final

from roofline.table import Derivation
from roofline.view.text import Amount, amount, binary, percent
from roofline.view.words import is_share

BINARY: Final = (
    "weights",
    "KV cache",
    "capacity",
    "memory in use",
    "activations",
    "runtime",
    "graphs",
)
"""Device memory, which people know in powers of two."""


def derived(entry: Derivation) -> Amount:
    """A value in its unit; device memory in powers of two, a share in percent."""
    if entry.name in BINARY and entry.unit == "B":
        return binary(entry.value)
    if not entry.unit and is_share(entry.name):
        return Amount(percent(entry.value))
    return amount(entry.value, entry.unit.replace("request/s", "requests/s"), 4)


def derivation_lines(
    derivation: Derivation,
) -> Iterator[tuple[int, str, tuple[tuple[str, str], ...]]]:
    """Each number of a derivation: its depth, what it is, and what is said about it, marked."""
    for depth, entry in derivation.walk():
        marked = {"=": entry.formula, "= ": entry.substituted, "from": entry.source}
        said = tuple(
            (mark, text) for mark, text in (marked | {"note:": entry.note}).items() if text
        )
        known = f"  [{entry.basis}]" if entry.basis and not entry.formula else ""
        yield depth, f"{entry.name} = {derived(entry)}{known}", said
