"""GPUs and nodes from the files of ``hwspecs/``."""

import math
from collections.abc import Mapping
from pathlib import Path

from roofline.errors import DocumentError
from roofline.hardware.figures import read_facts
from roofline.hardware.files import GpuFile, NodeFile
from roofline.hardware.links import Facts, NodeEntry, below, completed, kind, stated, under
from roofline.hardware.machine import Fact, Gpu, Link
from roofline.schema import Document
from roofline.units import show


def read_gpu(path: Path) -> Gpu:
    """Read one GPU.

    Args:
        path: A YAML file with the shape of those in ``hwspecs/gpus/``.

    Raises:
        DocumentError: The file cannot be read, a figure has no source, no such unit, or cannot be.
    """
    document, file, facts = read_facts(GpuFile, path)
    _check(document, facts)
    return _gpu(file, _completed(file, facts))


def read_node(path: Path) -> NodeEntry:
    """Read one node.

    Args:
        path: A YAML file with the shape of those in ``hwspecs/nodes/``.

    Raises:
        DocumentError: As for `read_gpu`.
    """
    _, file, facts = read_facts(NodeFile, path)
    return NodeEntry(
        file.name,
        file.title,
        file.gpu,
        file.link.kind,
        file.link.topology or "",
        file.network.kind if file.network else "",
        facts,
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
    for name in facts:
        group, _, rate = name.partition(".")
        if group == "sustained" and f"arithmetic.{rate}" not in facts:
            message = f"{rate} has no dense rate that products could keep up"
            raise refuse(name, message, f"add arithmetic.{rate}")
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
        sustained=next(
            (value(f"sustained.{name}") / value(f"arithmetic.{name}") for name in file.sustained),
            0.0,
        ),
        confidence=file.provenance.confidence if file.provenance else "",
        notes=file.provenance.notes if file.provenance else "",
    )
