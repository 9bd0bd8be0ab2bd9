"""Derivation of each figure, down to facts with sources."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from roofline.table import Derivation, Result
from roofline.view.block import Section
from roofline.view.known import BOUND, MEASURED, PARTLY
from roofline.view.text import Amount
from roofline.view.words import derived

LONG: Final = 8
"""Numbers of a part from which on it is told once."""


class DerivationNode(Struct, frozen=True):
    """One number of a derivation."""

    entry: Derivation
    value: Amount
    basis: str
    metric: str = ""
    """Key of the derivation on this page that says the rest; empty if it is said here."""
    under: str = ""
    """Name of that derivation, where this number is a part of it."""
    inputs: tuple["DerivationNode", ...] = ()

    @property
    def leaf(self) -> bool:
        """True where there is nothing to unfold."""
        return not (self.entry.formula or self.entry.substituted or self.inputs)


def derivation_facts(result: Result) -> Mapping[str, DerivationNode]:
    """Derivations by metric; one that is part of another is told once and linked.

    So are long parts that two of them have.
    """
    told = {entry: (metric, "") for metric, entry in result.derivations.items()}
    out = {}
    for metric, entry in result.derivations.items():
        parts: dict[Derivation, tuple[str, str]] = {}
        out[metric] = _node(entry, told, parts, metric, entry.name)
        told = parts | told
    return out


def _node(
    entry: Derivation,
    told: Mapping[Derivation, tuple[str, str]],
    parts: dict[Derivation, tuple[str, str]],
    metric: str,
    under: str,
    top: bool = True,
) -> DerivationNode:
    """A number with its inputs, each that is told elsewhere without them.

    Args:
        entry: The derivation.
        told: Derivations that have been told: the metric, and its name where they are part of it.
        parts: Takes those that are told here.
        metric, under: The metric that this one is of, and its name.
        top: Whether it is that metric itself.
    """
    every, basis = [part for _, part in entry.walk()], entry.basis
    if basis == BOUND and any(part.basis in MEASURED for part in every):
        basis = PARTLY  # only a part rests on datasheet rates
    if not top and entry in told:
        return DerivationNode(entry, derived(entry), basis, *told[entry])
    if not top and len(every) >= LONG:
        parts[entry] = metric, under
    inputs = (_node(part, told, parts, metric, under, top=False) for part in entry.inputs)
    return DerivationNode(entry, derived(entry), basis, inputs=tuple(inputs))


def build(result: Result) -> Section | None:
    """Section of the page."""
    if not result.derivations:
        return None
    return Section(90, "derivations", "Derivations", "derivations.html", derivation_facts(result))
