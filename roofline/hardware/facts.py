"""From the figures of a file to facts: each checked, converted to base units and traceable."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from roofline.content import shipped
from roofline.errors import DocumentError, QuantityError
from roofline.hardware.files import Claim
from roofline.hardware.machine import Fact
from roofline.schema import Document, Sourced, SourceEntry, Strict, quantity
from roofline.units import parse


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
        document: What the file says, and where.
        part: The validated file, or a part of it.
        sources: Of the file.
        path: Keys that lead to the part.
        kinds: What figures must be: by path, else by the last step of it, else by the first.

    Raises:
        DocumentError: A figure has no such unit, cannot be, or does not say where in its source it
            is.
    """
    match part:
        case Sourced():
            yield ".".join(path), _figure(document, part, sources, path, kinds)
        case Claim():
            text, value = ("true", 1.0) if part.value else ("false", 0.0)
            yield ".".join(path), _traced(document, part, sources, path, text, value)
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
    kind = kinds.get(".".join(path)) or kinds.get(path[-1]) or kinds[path[0]]
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
    return _traced(document, figure, sources, path, str(figure.value), value)


def _traced(
    document: Document,
    said: Sourced | Claim,
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
