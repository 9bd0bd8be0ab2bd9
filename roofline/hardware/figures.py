"""Figures in the files of ``hwspecs/``: checked, converted and traced to their source."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from roofline.content import shipped
from roofline.errors import DocumentError, QuantityError
from roofline.hardware.files import Claim, GpuFile, LinkKindFile, NodeFile
from roofline.hardware.machine import Fact
from roofline.schema import (
    Document,
    SourcedFigure,
    SourceEntry,
    Strict,
    check_sources,
    quantity,
    read,
    validate,
)
from roofline.units import parse


class FigureKind(Struct, frozen=True):
    """Requirements of a figure: its unit, the range that exists, true for a count."""

    unit: str
    low: str
    high: str
    whole: bool = False


_File = TypeVar("_File", GpuFile, NodeFile, LinkKindFile)
_CONTENT: Final = str(shipped("hwspecs").parent / "_")[:-1]  # not worth showing before a place
_ON_CHIP: Final = FigureKind("B", "1 KiB", "16 GiB")
_WIRE: Final = FigureKind("B/s", "1 MB/s", "1000 TB/s")
_COUNT: Final = FigureKind("", "1", "100000", whole=True)
# By path, else by the last step of it, else by the first.
KINDS: Final[Mapping[str, FigureKind]] = {
    "memory.nominal": FigureKind("B", "16 MiB", "1024 TiB"),
    "memory.visible": FigureKind("B", "16 MiB", "1024 TiB"),
    "memory.bandwidth": FigureKind("B/s", "1 GB/s", "1000 TB/s"),
    "cache.l2": _ON_CHIP,
    "cache.l2_bandwidth": FigureKind("B/s", "1 GB/s", "1000 TB/s"),
    "cache.l2_bytes_per_clock": FigureKind("B", "1 B", "16 MiB"),
    "compute.multiprocessors": _COUNT,
    "compute.l1": _ON_CHIP,
    "compute.shared_memory": _ON_CHIP,
    "compute.shared_memory_per_block": _ON_CHIP,
    "compute.shared_bytes_per_clock": FigureKind("B", "1 B", "1 MiB"),
    "compute.clock": FigureKind("Hz", "1 MHz", "20 GHz"),
    "arithmetic": FigureKind("FLOP/s", "1 GFLOP/s", "1000 PFLOP/s"),
    "sustained": FigureKind("FLOP/s", "1 GFLOP/s", "1000 PFLOP/s"),
    "sparsity.factor": FigureKind("", "1", "16"),
    "power.tdp": FigureKind("W", "1 W", "100 kW"),
    "power.maximum": FigureKind("W", "1 W", "10 MW"),
    "price.per_hour": FigureKind("$/h", "0.001 $/h", "10000 $/h"),
    "gpus": _COUNT,
    "bandwidth": _WIRE,
    "latency": FigureKind("s", "1 ns", "1 s"),
    "peer": FigureKind("s", "0 s", "1 s"),
    "devices": _COUNT,
    "network.oversubscription": FigureKind("", "1", "100"),
    "host.memory": FigureKind("B", "1 GiB", "1024 TiB"),
}


def facts_of(
    document: Document,
    part: object,
    sources: Mapping[str, SourceEntry],
    *path: str,
    kinds: Mapping[str, FigureKind] = KINDS,
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
        case SourcedFigure():
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
    figure: SourcedFigure,
    sources: Mapping[str, SourceEntry],
    path: tuple[str, ...],
    kinds: Mapping[str, FigureKind],
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
    said: SourcedFigure,
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


def read_kind(path: Path) -> dict[str, Fact]:
    """Read the figures that all links of a kind have, by name.

    Args:
        path: A YAML file with the shape of those in ``hwspecs/links/``.

    Raises:
        DocumentError: The file cannot be read, a figure has no source, no such unit, or cannot be.
    """
    document, file, facts = read_facts(LinkKindFile, path)
    if file.name != path.stem:
        raise DocumentError(
            f"name is {file.name!r} but the file is called {path.name!r}",
            hint="call the file after the kind",
            where=document.where("name"),
        )
    return facts


def read_facts(kind: type[_File], path: Path) -> tuple[Document, _File, dict[str, Fact]]:
    """A file as it is read and as it is validated, and all its figures."""
    document = read(path)
    file = validate(kind, document)
    check_sources(document)
    return document, file, dict(facts_of(document, file, file.sources))
