"""What derivations are made of: facts, given values, numbers of the network."""

from collections.abc import Iterable, Iterator
from math import isclose
from typing import Final

from roofline.cost.offload import Offload
from roofline.hardware.machine import Fact, Gpu
from roofline.serving.static import StaticBatch
from roofline.table import BASES, Derivation

ROUNDING: Final = 2e-9
"""Relative: what is smaller is rounding."""


def worst(bases: list[str]) -> str:
    """Basis of a figure built from others: the worst one wins.

    >>> worst(["measured", "assumed", "datasheet"])
    'assumed'
    """
    known = [BASES.index(basis) for basis in bases if basis]
    return BASES[max(known)] if known else ""


def worst_of(entries: Iterable[Derivation]) -> str:
    """Worst basis of derivations and all that is nested in them."""

    def bases(each: Derivation) -> Iterator[str]:
        yield each.basis
        for part in each.inputs:
            yield from bases(part)

    return worst([basis for entry in entries for basis in bases(entry)])


def same(a: float, b: float) -> bool:
    """Whether two ways to count come to the same, but for rounding."""
    return isclose(a, b, rel_tol=1e-8)


def given(name: str, value: float, unit: str) -> Derivation:
    """What the user asked for, or a default."""
    return Derivation(name, value, unit, source="given")


def outside_share(name: str, share: float, offload: Offload) -> Derivation:
    """Share that is kept outside device memory: asked for, or, of weights, found."""
    found = offload.least and share == offload.weights
    return Derivation(name, share, "", source="the least with which it fits" if found else "given")


def fact(gpu: Gpu, name: str, key: str, value: float, unit: str) -> Derivation:
    """Figure of a GPU with its source; one that its file does not have was given."""
    return stated(gpu.facts.get(key), name, value, unit)


def stated(known: Fact | None, name: str, value: float, unit: str) -> Derivation:
    """Figure of a file with its source; one that no file has was given."""
    if known is None:
        return given(name, value, unit)
    place = ", ".join(text for text in (known.source, known.where, known.location) if text)
    return Derivation(name, value, unit, source=place, basis=known.basis, note=known.note)


def config(batch: StaticBatch, name: str, field: str, value: float) -> Derivation:
    """Number of the network, with the line of its config."""
    network = batch.deployment.architecture
    return Derivation(name, value, "", source=network.provenance.get(field, network.name))
