"""How each figure came about, down to facts with sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from roofline.report.block import Block
from roofline.report.text import Amount, amount, binary
from roofline.table import Derivation, Result

ORDER: Final = 90

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


@dataclass(frozen=True, slots=True)
class Node:
    """One number of a derivation.

    Attributes
    ----------
    metric
        Key of the derivation on this page that says the rest; empty if it is said here.
    """

    name: str
    value: Amount
    formula: str
    substituted: str
    source: str
    basis: str
    note: str
    metric: str
    inputs: tuple["Node", ...]

    @property
    def leaf(self) -> bool:
        """Whether there is nothing to unfold."""
        return not (self.formula or self.substituted or self.inputs)


def derivation_facts(result: Result) -> Mapping[str, Node]:
    """Derivations by metric; one that is part of another is told once and linked."""
    whole = {entry: metric for metric, entry in result.derivations.items()}
    return {metric: _node(entry, whole, top=True) for metric, entry in result.derivations.items()}


def _node(entry: Derivation, whole: Mapping[Derivation, str], top: bool = False) -> Node:
    metric = "" if top else whole.get(entry, "")
    value = binary(entry.value) if entry.name in BINARY else amount(entry.value, entry.unit, 4)
    if metric:
        return Node(entry.name, value, "", "", "", entry.basis, "", metric, ())
    return Node(
        entry.name,
        value,
        entry.formula,
        entry.substituted,
        entry.source,
        entry.basis,
        entry.note,
        "",
        tuple(_node(part, whole) for part in entry.inputs),
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    if not result.derivations:
        return None
    return Block("derivations", "Derivations", "derivations.html", derivation_facts(result))
