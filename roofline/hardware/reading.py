"""GPUs, nodes and links from the files of ``hwspecs/``: figures checked, converted and traced."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from roofline.content import shipped
from roofline.errors import DocumentError, QuantityError
from roofline.hardware.files import Claim, GpuFile, LinkKindFile, NodeFile
from roofline.hardware.links import Facts, NodeEntry, below, completed, kind, stated, under
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
    """Requirements of a figure: its unit, the range that exists, true for a count."""

    unit: str
    low: str
    high: str
    whole: bool = False


_File = TypeVar("_File", GpuFile, NodeFile, LinkKindFile)
_CONTENT: Final = str(shipped("hwspecs").parent / "_")[:-1]  # not worth showing before a place
_ON_CHIP: Final = Kind("B", "1 KiB", "16 GiB")
_WIRE: Final = Kind("B/s", "1 MB/s", "1000 TB/s")
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
    "power.maximum": Kind("W", "1 W", "10 MW"),
    "price.per_hour": Kind("$/h", "0.001 $/h", "10000 $/h"),
    "gpus": _COUNT,
    "bandwidth": _WIRE,
    "latency": Kind("s", "1 ns", "1 s"),
    "peer": Kind("s", "0 s", "1 s"),
    "devices": _COUNT,
    "network.oversubscription": Kind("", "1", "100"),
    "host.memory": Kind("B", "1 GiB", "1024 TiB"),
}


def facts_of(
    document: Document,
    part: object,
    sources: Mapping[str, SourceEntry],
    *path: str,
    kinds: Mapping[str, Kind] = KINDS,
) -> Iterator[tuple[str, Fact]]:
    """Every figure and claim below a part of a file, by its dotted path, in the model's order.

    Args:
        document: The file as read, with its places.
        part: The validated file, or a part of it.
        sources: Sources of the file, by their short names.
        path: Keys that lead to the part.
        kinds: Requirements of figures by path, else by the last step of it, else by the first.

    Raises:
        DocumentError: A figure has no such unit, cannot be, or does not say where in its source it
            is.
    """
    match part:
        case Claim():
            text, value = ("true", 1.0) if part.value else ("false", 0.0)
            yield ".".join(path), _traced(document, part, sources, path, text, value)
        case Sourced():
            yield ".".join(path), _figure(document, part, sources, path, kinds)
        case Strict():
            for name in type(part).model_fields:
                yield from facts_of(
                    document, getattr(part, name), sources, *path, name, kinds=kinds
                )
        case dict():
            for name, inside in part.items():
                yield from facts_of(document, inside, sources, *path, name, kinds=kinds)


def _figure(
    document: Document,
    figure: Sourced,
    sources: Mapping[str, SourceEntry],
    path: tuple[str, ...],
    kinds: Mapping[str, Kind],
) -> Fact:
    wanted = kinds.get(".".join(path)) or kinds.get(path[-1]) or kinds[path[0]]
    location = document.where(*path, "value")
    accepted = f"between {wanted.low} and {wanted.high}"
    try:
        value = quantity(document, wanted.unit, *path, "value")
    except QuantityError as error:
        hint = f"write a number{' and its unit' if wanted.unit else ''}, {accepted}"
        raise DocumentError(error.message, hint=hint, where=location) from None
    message = f"{'.'.join(path)} cannot be {str(figure.value)[:64]!r}"
    if not parse(wanted.low, wanted.unit) <= value <= parse(wanted.high, wanted.unit):
        hint = f"check the number and its prefix; what exists is {accepted}"
        raise DocumentError(message, hint=hint, where=location)
    if wanted.whole and value != int(value):
        raise DocumentError(message, hint="write a whole number", where=location)
    return _traced(document, figure, sources, path, str(figure.value), value)


def _traced(
    document: Document,
    said: Sourced,
    sources: Mapping[str, SourceEntry],
    path: tuple[str, ...],
    text: str,
    value: float,
) -> Fact:
    if said.source != "assumed" and not said.where:
        raise DocumentError(
            f"{'.'.join(path)} does not say where in the source it is",
            hint="add 'where:' with a table, row, page or section",
            where=document.where_key(*path),
        )
    return Fact(
        text=text,
        value=value,
        source="assumed" if said.source == "assumed" else sources[said.source].title,
        where=said.where,
        note=said.note,
        location=document.where(*path, "value").removeprefix(_CONTENT),
        date=said.date,
    )


def read_gpu(path: Path) -> Gpu:
    """Read one GPU.

    Args:
        path: A YAML file with the shape of those in ``hwspecs/gpus/``.

    Raises:
        DocumentError: The file cannot be read, a figure has no source, no such unit, or cannot be.
    """
    document, file, facts = _read(GpuFile, path)
    _check(document, facts)
    return _gpu(file, _completed(file, facts))


def read_node(path: Path) -> NodeEntry:
    """Read one node.

    Args:
        path: A YAML file with the shape of those in ``hwspecs/nodes/``.

    Raises:
        DocumentError: As for `read_gpu`.
    """
    _, file, facts = _read(NodeFile, path)
    return NodeEntry(
        file.name,
        file.title,
        file.gpu,
        file.link.kind,
        file.link.topology or "",
        file.network.kind if file.network else "",
        facts,
    )


def read_kind(path: Path) -> tuple[Link, Facts]:
    """Read a kind of link: one that has what all of them have, and its figures by name.

    Args:
        path: A YAML file with the shape of those in ``hwspecs/links/``.

    Raises:
        DocumentError: The file cannot be read, a figure has no source, no such unit, or cannot be.
    """
    document, file, facts = _read(LinkKindFile, path)
    if file.name != path.stem:
        raise DocumentError(
            f"name is {file.name!r} but the file is called {path.name!r}",
            hint="call the file after the kind",
            where=document.where("name"),
        )
    return stated(Link(file.name, 0.0), facts), facts


def _read(kind: type[_File], path: Path) -> tuple[Document, _File, dict[str, Fact]]:
    """A file as it is read and as it is validated, and all its figures."""
    document = read(path)
    file = validate(kind, document)
    check_sources(document)
    return document, file, dict(facts_of(document, file, file.sources))


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


def _completed(file: GpuFile, facts: Facts) -> dict[str, Fact]:
    """Figures, products of them, and for each link those that all links of its kind have."""
    every = {"hbm" if name == "memory.bandwidth" else name: fact for name, fact in facts.items()}
    products = {
        "cache.l2_bandwidth": ("cache.l2_bytes_per_clock", "compute.clock"),
        "compute.shared_bandwidth": (
            "compute.multiprocessors",
            "compute.shared_bytes_per_clock",
            "compute.clock",
        ),
    }
    for name, factors in products.items():
        if name not in every and all(factor in every for factor in factors):
            every[name] = _product([(factor, every[factor]) for factor in factors])
    out = {name: fact for name, fact in every.items() if not name.startswith("links.")}
    for name in file.links:
        path = f"links.{name}"
        out |= under(completed(below(every, path), kind(name)[1]), path)
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
            name: stated(
                Link(name, 0.0, title=link.title, topology=link.topology or ""),
                below(facts, f"links.{name}"),
            )
            for name, link in file.links.items()
        },
        tdp_w=value("power.tdp"),
        usd_per_hour=value("price.per_hour"),
        facts=facts,
        aliases=file.aliases,
        confidence=file.provenance.confidence if file.provenance else "",
        notes=file.provenance.notes if file.provenance else "",
    )
