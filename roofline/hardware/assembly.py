"""Nodes around a GPU: as a file describes them, or put together where none does."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from roofline.hardware.links import below, completed, host_link, kind, stated, under
from roofline.hardware.machine import Fact, Gpu, Host, Link, Node


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """Node as its file describes it, without its GPU."""

    name: str
    title: str
    gpu: str
    """Catalog name and title of the node; its GPU, by name."""
    link: str
    topology: str
    network: str
    """Kinds of link between its GPUs and out of it; how they are joined. Empty where not stated."""
    facts: Mapping[str, Fact]
    """Figures by dotted path."""


def described(entry: NodeEntry, gpu: Gpu) -> Node | None:
    """Node of a file around a GPU; None if it is joined by a link without a rate.

    Args:
        entry: The file.
        gpu: What is in it. Figures of the link that the node's file leaves out are those of the
            GPU, else those of the kind of link.
    """
    facts = entry.facts
    gpus = int(facts["gpus"].value)
    link, of_link = _between(entry, gpu, gpus)
    if not link.bytes_per_s:
        return None
    network, of_network = _out(entry)
    host, of_host = _host(facts, gpu)
    every = {"gpus": facts["gpus"], **of_link, **of_network, **of_host}
    return Node(entry.name, entry.title, gpu, gpus, link, network, every, host)


def improvised(gpu: Gpu, gpus: int, link: Link | None) -> Node:
    """Node that no file describes: so many GPUs on one of their links.

    Args:
        gpu: What is in it.
        gpus: How many. [1]
        link: One of the GPU's. A mesh is wired for just so many.
    """
    by = f"joined by {link.title or link.kind}" if link else "without links"
    facts = {"gpus": Fact(str(gpus), gpus, "assumed", note=f"no file describes such a node; {by}")}
    if link:
        facts |= under(below(gpu.facts, f"links.{link.kind}"), "link")
        if link.topology == "mesh" and gpus > 1:
            link = replace(link, devices=gpus)
    title = f"{gpus} × {gpu.title}, {by}" if gpus > 1 else gpu.title
    return Node(f"{gpu.name}-x{gpus}", title, gpu, gpus, link, None, facts)


def _between(entry: NodeEntry, gpu: Gpu, gpus: int) -> tuple[Link, dict[str, Fact]]:
    """Link between the GPUs, which may be slower than the GPU's own."""
    name, own = entry.link, below(entry.facts, "link")
    general, inherited = kind(name)
    if name in gpu.links:
        general, inherited = gpu.links[name], below(gpu.facts, f"links.{name}")
    link = stated(general, own)
    if "bandwidth" in own:
        link = replace(link, title="")  # not all the wires that the name stands for
    if entry.topology:
        link = replace(link, topology=entry.topology)
    if link.topology == "mesh":
        link = replace(link, devices=link.devices or gpus)
    return link, under(completed(own, inherited), "link")


def _out(entry: NodeEntry) -> tuple[Link | None, dict[str, Fact]]:
    """Network out of the node; none of a GPU's links, even of the same kind."""
    if not entry.network:
        return None, {}
    general, inherited = kind(entry.network)
    full = Fact("1", 1.0, "assumed", note="no file says otherwise: a spine as fast as its leaves")
    every = completed(below(entry.facts, "network"), {**inherited, "oversubscription": full})
    return stated(general, every), under(every, "network")


def _host(facts: Mapping[str, Fact], gpu: Gpu) -> tuple[Host | None, dict[str, Fact]]:
    """Host of the node, on the link that the GPU has to it."""
    if "host.memory" not in facts:
        return None, {}
    link = host_link(gpu)
    inherited = below(gpu.facts, f"links.{link.kind}") if link else {}
    every = {"memory": facts["host.memory"], **inherited}
    return Host(facts["host.memory"].value, link), under(every, "host")
