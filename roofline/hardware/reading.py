"""From a file of ``hwspecs/`` to a GPU or node: every figure checked, converted and traceable."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roofline.content import shipped
from roofline.errors import DocumentError, QuantityError
from roofline.hardware.files import GpuFile, NodeFile
from roofline.hardware.machine import Fact, Gpu, Link
from roofline.schema import (
    Document,
    Sourced,
    SourceEntry,
    Strict,
    check_sources,
    quantity,
    read,
    validate,
)
from roofline.units import parse, show


@dataclass(frozen=True, slots=True)
class Kind:
    """What a figure must be: its unit, the range that exists, whether it is a count."""

    unit: str
    low: str
    high: str
    whole: bool = False


_CONTENT: Final = str(shipped("hwspecs").parent / "_")[:-1]  # not worth showing before a place
_ON_CHIP: Final = Kind("B", "1 KiB", "16 GiB")
_WIRE: Final = Kind("B/s", "1 MB/s", "1000 TB/s")
_DELAY: Final = Kind("s", "1 ns", "1 s")
_COUNT: Final = Kind("", "1", "100000", whole=True)
# By path, else by the last step of it, else by the first.
KINDS: Final[Mapping[str, Kind]] = {
    "memory.nominal": Kind("B", "16 MiB", "1024 TiB"),
    "memory.visible": Kind("B", "16 MiB", "1024 TiB"),
    "memory.bandwidth": Kind("B/s", "1 GB/s", "1000 TB/s"),
    "cache.l2": _ON_CHIP,
    "cache.l2_bandwidth": Kind("B/s", "1 GB/s", "1000 TB/s"),
    "cache.l2_bytes_per_clock": Kind("B", "1 B", "16 MiB"),
    "compute.multiprocessors": _COUNT,
    "compute.l1": _ON_CHIP,
    "compute.shared_memory": _ON_CHIP,
    "compute.shared_memory_per_block": _ON_CHIP,
    "compute.shared_bytes_per_clock": Kind("B", "1 B", "1 MiB"),
    "compute.clock": Kind("Hz", "1 MHz", "20 GHz"),
    "arithmetic": Kind("FLOP/s", "1 GFLOP/s", "1000 PFLOP/s"),
    "sparsity.factor": Kind("", "1", "16"),
    "power.tdp": Kind("W", "1 W", "100 kW"),
    "price.per_hour": Kind("$/h", "0.001 $/h", "10000 $/h"),
    "gpus": _COUNT,
    "bandwidth": _WIRE,
    "latency": _DELAY,
    "devices": _COUNT,
}


def read_gpu(path: Path) -> Gpu:
    """Read one GPU.

    Parameters
    ----------
    path
        A YAML file with the shape of those in ``hwspecs/gpus/``.

    Raises
    ------
    DocumentError
        The file cannot be read, a figure has no source, no such unit, or cannot be.
    """
    document = read(path)
    file = validate(GpuFile, document)
    check_sources(document)
    facts = dict(_facts(document, file, file.sources, ()))
    _check(document, facts)
    return _gpu(file, _with_products(facts))


def read_node(path: Path) -> tuple[NodeFile, dict[str, Fact]]:
    """Read one node: the file, and its figures by dotted path.

    Parameters
    ----------
    path
        A YAML file with the shape of those in ``hwspecs/nodes/``.

    Raises
    ------
    DocumentError
        As for `read_gpu`.
    """
    document = read(path)
    file = validate(NodeFile, document)
    check_sources(document)
    return file, dict(_facts(document, file, file.sources, ()))


def _facts(
    document: Document, part: object, sources: Mapping[str, SourceEntry], path: tuple[str, ...]
) -> Iterator[tuple[str, Fact]]:
    """Every figure below a part of the file, in the order of the file's model."""
    match part:
        case Sourced():
            yield ".".join(path), _fact(document, part, sources, path)
        case Strict():
            for name in type(part).model_fields:
                yield from _facts(document, getattr(part, name), sources, (*path, name))
        case dict():
            for name, inside in part.items():
                yield from _facts(document, inside, sources, (*path, name))


def _fact(
    document: Document, figure: Sourced, sources: Mapping[str, SourceEntry], path: tuple[str, ...]
) -> Fact:
    kind = KINDS.get(".".join(path)) or KINDS.get(path[-1]) or KINDS[path[0]]
    location = document.where(*path, "value")
    accepted = f"between {kind.low} and {kind.high}"
    try:
        value = quantity(document, kind.unit, *path, "value")
    except QuantityError as error:
        hint = f"write a number{' and its unit' if kind.unit else ''}, {accepted}"
        raise DocumentError(error.message, hint=hint, where=location) from None
    if not parse(kind.low, kind.unit) <= value <= parse(kind.high, kind.unit):
        message = f"{'.'.join(path)} cannot be {str(figure.value)[:64]!r}"
        hint = f"check the number and its prefix; what exists is {accepted}"
        raise DocumentError(message, hint=hint, where=location)
    if kind.whole and value != int(value):
        message = f"{'.'.join(path)} cannot be {str(figure.value)[:64]!r}"
        raise DocumentError(message, hint="write a whole number", where=location)
    if figure.source != "assumed" and not figure.where:
        raise DocumentError(
            f"{'.'.join(path)} does not say where in the source it is",
            hint="add 'where:' with a table, row, page or section",
            where=document.where_key(*path),
        )
    return Fact(
        text=str(figure.value),
        value=value,
        source="assumed" if figure.source == "assumed" else sources[figure.source].title,
        where=figure.where,
        note=figure.note,
        location=location.removeprefix(_CONTENT),
        date=figure.date,
    )


def _check(document: Document, facts: Mapping[str, Fact]) -> None:
    """Refuse figures that contradict each other."""

    def refuse(name: str, message: str, hint: str) -> DocumentError:
        return DocumentError(message, hint=hint, where=document.where(*name.split(".")))

    def value(name: str) -> float:
        return facts[name].value if name in facts else math.nan

    # Names round: 140.4 GiB for 143771 MiB.
    if value("memory.visible") > 1.01 * value("memory.nominal"):
        message = "more memory is visible than there is"
        raise refuse("memory.visible", message, "check the prefixes: 80 GiB are 81920 MiB")
    if value("compute.shared_memory_per_block") > value("compute.shared_memory"):
        message = "a block cannot have more shared memory than a multiprocessor has"
        raise refuse("compute.shared_memory_per_block", message, "check both figures")
    if "cache.l2_bytes_per_clock" in facts:
        if "cache.l2_bandwidth" in facts:
            message = "the cache has two rates"
            raise refuse("cache.l2_bandwidth", message, "keep one of the two figures")
        if "compute.clock" not in facts:
            message = "a rate per clock needs the clock"
            raise refuse("cache.l2_bytes_per_clock", message, "add compute.clock")


def _with_products(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Figures, and those that follow from them by multiplication."""
    out = {"hbm" if name == "memory.bandwidth" else name: fact for name, fact in facts.items()}
    products = {
        "cache.l2_bandwidth": ("cache.l2_bytes_per_clock", "compute.clock"),
        "compute.shared_bandwidth": (
            "compute.multiprocessors",
            "compute.shared_bytes_per_clock",
            "compute.clock",
        ),
    }
    for name, factors in products.items():
        if name not in out and all(factor in out for factor in factors):
            out[name] = _product([(factor, out[factor]) for factor in factors])
    return out


def _product(factors: list[tuple[str, Fact]]) -> Fact:
    value = math.prod(fact.value for _, fact in factors)
    guesses = [name for name, fact in factors if fact.basis == "assumed"]
    titles = dict.fromkeys(fact.source for _, fact in factors)
    return Fact(
        text=show(value, "B/s", digits=4),
        value=value,
        source="assumed" if guesses else "; ".join(titles),
        where=" × ".join(name for name, _ in factors),
        note=" × ".join(fact.text for _, fact in factors)
        + (f"; {' and '.join(guesses)} assumed" if guesses else ""),
    )


def _gpu(file: GpuFile, facts: Mapping[str, Fact]) -> Gpu:
    def value(*names: str) -> float:
        """First of the figures that is there, else 0."""
        return next((facts[name].value for name in names if name in facts), 0.0)

    return Gpu(
        name=file.name,
        title=file.title,
        vendor=file.vendor,
        architecture=file.architecture,
        flops_per_s={name: value(f"arithmetic.{name}") for name in file.arithmetic},
        memory_bytes=value("memory.visible", "memory.nominal"),
        nominal_bytes=value("memory.nominal"),
        hbm_bytes_per_s=value("hbm"),
        l2_bytes=value("cache.l2"),
        l2_bytes_per_s=value("cache.l2_bandwidth"),
        multiprocessors=value("compute.multiprocessors"),
        shared_bytes=value("compute.shared_memory_per_block", "compute.shared_memory"),
        shared_bytes_per_s=value("compute.shared_bandwidth"),
        clock_hz=value("compute.clock"),
        links={
            kind: Link(
                kind,
                value(f"links.{kind}.bandwidth"),
                value(f"links.{kind}.latency"),
                title=link.title,
                devices=int(value(f"links.{kind}.devices")),
            )
            for kind, link in file.links.items()
        },
        tdp_w=value("power.tdp"),
        usd_per_hour=value("price.per_hour"),
        facts=facts,
        memory_type=file.memory.type,
        aliases=file.aliases,
        confidence=file.provenance.confidence if file.provenance else "",
        notes=file.provenance.notes if file.provenance else "",
    )
