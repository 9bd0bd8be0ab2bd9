"""Parts of derivations: formulas with their numbers put in, facts, given values."""

import re
from collections.abc import Iterable, Iterator, Mapping
from math import isclose
from typing import Final

from roofline.cost.deployment import Deployment, Offload
from roofline.hardware.machine import Fact, Gpu
from roofline.part import Part
from roofline.records import replace
from roofline.serving.static import StaticBatch
from roofline.table import Derivation, worst
from roofline.units import show, show_binary, significant

ROUNDING: Final = 2e-9
"""Relative: what is smaller is rounding."""
UNITS: Final = {
    **dict.fromkeys(("α", "α network", "s", "s network", "what is hidden"), "s"),
    **dict.fromkeys(("W", "W network", "W host", "BW"), "B/s"),
    "P": "FLOP/s",
}
"""Units of symbols that are not plain numbers."""
_SYMBOLS: Final = re.compile(r"( [·/+−] |\^|, |\)|(?:max|min|ceil|log2)?\()")
_PART: Final = re.compile(r"\[([^\]]*)\]")
_BARE: Final = re.compile(r"ceil\(([^()/]*)\)|(?<=· )\(([^()+−,]*)\)")
"""Rounding of what is whole, and products in parentheses."""


def worst_of(entries: Iterable[Derivation]) -> str:
    """Worst basis of derivations and all that is nested in them."""

    def bases(each: Derivation) -> Iterator[str]:
        yield each.basis
        for part in each.inputs:
            yield from bases(part)

    return worst(basis for entry in entries for basis in bases(entry))


def derived(
    name: str,
    value: float,
    unit: str,
    formula: str,
    inputs: Iterable[Derivation] = (),
    terms: Mapping[str, float] | None = None,
    *,
    basis: str | None = None,
    binary: bool = False,
    **more: str,
) -> Derivation:
    """Figure with its formula, and the same with numbers put in for the names of what is in it.

    Args:
        name, value, unit: The figure.
        formula: In symbols, with brackets as in `roofline.cost.work.Formula`.
        inputs: What it is made of, each with a derivation of its own.
        terms: Symbols that are plain numbers or told elsewhere.
        basis: How it is known; None for the worst of the inputs.
        binary: Whether bytes have binary prefixes.
        more: Fields of `Derivation`.
    """
    inputs, terms = tuple(inputs), terms or {}
    units = {each.name: each.unit for each in inputs}
    numbers = {each.name: each.value for each in inputs} | dict(terms)

    def shown(name: str) -> str:
        value, unit = numbers[name], UNITS.get(name, "") if name in terms else units[name]
        if unit in ("", "token", "parameter"):
            return f"{value:,.10g}"
        if binary and unit == "B":
            return show_binary(value)
        if unit in ("request/s", "$/h"):
            return significant(value, 4)
        return show(value, unit, 4 if name in terms or unit in ("B", "B/s") else 3)

    text = without_neutral(formula, numbers)
    pieces, names = split(text), []
    for place, piece in enumerate(pieces):
        if piece in numbers:
            names.append(piece)
            pieces[place] = shown(piece)
        else:
            assert place % 2 or not piece[:1].isalpha(), f"{piece} of {formula} is not known"
    if basis is None:
        basis = worst(each.basis for each in inputs)
    put_in = "".join(pieces) if names else ""
    return Derivation(name, value, unit, text, put_in, inputs, basis=basis, **more)


def split(formula: str) -> list[str]:
    """Names and numbers of a formula, at even places, and what joins them.

    >>> split("2 · (n + k)")
    ['2', ' · ', '', '(', 'n', ' + ', 'k', ')', '']
    """
    return _SYMBOLS.split(formula)


def mentions(formula: str, name: str) -> bool:
    """True where a name is in a formula, in brackets or not."""
    return name in split(formula.replace("[", "").replace("]", ""))


def without_neutral(formula: str, numbers: Mapping[str, float]) -> str:
    """Formula with those of its parts in brackets that change something.

    >>> without_neutral("a[ + b][ / c]", {"a": 3.0, "b": 0.0, "c": 2.0})
    'a / c'
    >>> without_neutral("ceil(V[ / TP]) · (k · bytes[ + scale])", {"TP": 1.0})
    'V · k · bytes'
    """
    if "[" not in formula and "(" not in formula:
        return formula

    def kept(match: re.Match[str]) -> str:
        neutral = 0.0 if match[1][1] in "+−" else 1.0
        names = (name for name in split(match[1]) if name[:1].isalpha())
        changes = all(numbers.get(name, neutral) != neutral for name in names)
        return match[1] if changes else ""

    return _BARE.sub(r"\1\2", _PART.sub(kept, formula))


def parted(part: Part, unit: str, inputs: Iterable[Derivation] = ()) -> Derivation:
    """Part of a sum, as the function that makes it says."""
    value, terms = float(part.value), {name: float(v) for name, v in part.symbols.items()}
    return derived(part.name, value, unit, part.formula, inputs, terms, source=part.source)


def told_apart(parts: Iterable[Derivation]) -> list[Derivation]:
    """Parts of a sum, those of one name numbered."""
    seen: dict[str, int] = {}
    out = []
    for part in parts:
        seen[part.name] = number = seen.get(part.name, 0) + 1
        out.append(part if number == 1 else replace(part, name=f"{part.name} of kind {number}"))
    return out


def differs(rest: float, value: float) -> bool:
    """True where a rest of a figure is more than rounding."""
    return not isclose(rest + value, value, rel_tol=ROUNDING)


def given(
    name: str, value: float, unit: str, source: str = "given", basis: str = "", note: str = ""
) -> Derivation:
    """Number that the user gave, a default, or one that is told elsewhere."""
    return Derivation(name, value, unit, source=source, basis=basis, note=note)


def cached_element(deployment: Deployment) -> Derivation:
    """Bytes of an element of the cache, by its format."""
    cache = deployment.precision.kv
    return given("bytes per element", cache.width, "B", f"{cache.name} cache")


def outside_share(name: str, share: float, offload: Offload) -> Derivation:
    """Share that is kept outside device memory: asked for, or, of weights, found."""
    found = offload.least and share == offload.weights
    return given(name, share, "", "the least with which it fits" if found else "given")


def fact(gpu: Gpu, name: str, key: str, value: float, unit: str) -> Derivation:
    """Figure of a GPU with its source; one that its file does not have was given."""
    return stated(gpu.facts.get(key), name, value, unit)


def stated(known: Fact | None, name: str, value: float, unit: str) -> Derivation:
    """Figure of a file with its source; one that no file has was given."""
    if known is None:
        return given(name, value, unit)
    place = ", ".join(text for text in (known.source, known.where, known.location) if text)
    return given(name, value, unit, place, known.basis, known.note)


def config(batch: StaticBatch, name: str, field: str, value: float) -> Derivation:
    """Number of the network, with the line of its config."""
    network = batch.deployment.architecture
    return given(name, value, "", network.provenance.get(field, network.name))
