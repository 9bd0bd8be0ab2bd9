"""Links by kind (``hwspecs/links/``) with what a machine adds to them, and nodes around a GPU."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from msgspec import Struct

from roofline.content import shipped
from roofline.hardware.machine import Fact, Gpu, Host, Link, Node
from roofline.kept import kept
from roofline.records import replace

Facts = Mapping[str, Fact]

_FIELDS: Final = {
    "bandwidth": "bytes_per_s",
    "latency": "latency_s",
    "peer": "per_peer_s",
    "oversubscription": "oversubscription",
}


@cache
def kind(name: str) -> tuple[Link, Facts]:
    """Link of a kind and its figures; its rate is 0 where that is the machine's.

    Examples:
        >>> link, facts = kind("ici")
        >>> link.latency_s, facts["latency"].text
        (1e-06, '1 µs')
    """
    path = shipped("hwspecs") / "links" / f"{name}.yaml"

    def read() -> tuple[Link, Facts]:
        from roofline.hardware.figures import read_kind

        facts = read_kind(path)
        return stated(Link(name, 0.0), facts), facts

    return kept(read, "kind of link", [path])


def stated(link: Link, facts: Facts) -> Link:
    """Link with the figures that a file states in place of its own.

    Examples:
        >>> slow = {"latency": Fact("3 s", 3.0, "assumed")}
        >>> stated(Link("pcie", 1.0, latency_s=2.0), slow).latency_s
        3.0
    """
    changed: dict[str, Any] = {
        field: facts[name].value for name, field in _FIELDS.items() if name in facts
    }
    if "devices" in facts:
        changed["devices"] = int(facts["devices"].value)
    if "reduces" in facts:
        changed["reduces"] = bool(facts["reduces"].value)
    return replace(link, **changed)


def below(facts: Facts, path: str) -> dict[str, Fact]:
    """Figures below a dotted path, by the rest of it.

    Examples:
        >>> list(below({"link.latency": Fact("", 0.0, ""), "gpus": Fact("", 0.0, "")}, "link"))
        ['latency']
    """
    start = f"{path}."
    return {
        name.removeprefix(start): fact for name, fact in facts.items() if name.startswith(start)
    }


def under(facts: Facts, path: str) -> dict[str, Fact]:
    """Figures with a dotted path put before their names: the inverse of `below`."""
    return {f"{path}.{name}": fact for name, fact in facts.items()}


def completed(own: Facts, inherited: Facts) -> dict[str, Fact]:
    """A file's own figures, then those that it leaves out.

    Examples:
        >>> slow, fast, near = Fact("1 B/s", 1.0, ""), Fact("9 B/s", 9.0, ""), Fact("2 s", 2.0, "")
        >>> both = completed({"bandwidth": slow}, {"latency": near, "bandwidth": fast})
        >>> {name: fact.text for name, fact in both.items()}
        {'bandwidth': '1 B/s', 'latency': '2 s'}
    """
    return {**own, **{name: fact for name, fact in inherited.items() if name not in own}}


def host_link(gpu: Gpu) -> Link | None:
    """Link from a GPU to the processors of its host: chip to chip, else PCIe; None without both.

    Examples:
        >>> from roofline.hardware.catalog import gpu
        >>> host_link(gpu("gh200-96gb")).kind, host_link(gpu("h100-sxm")).kind
        ('c2c', 'pcie')
    """
    return gpu.links.get("c2c") or gpu.links.get("pcie")


def storage_link() -> Link:
    """Link to one local drive; its figures are those of ``kind("nvme")``.

    Examples:
        >>> storage_link().bytes_per_s
        7000000000.0
    """
    return kind("nvme")[0]


class NodeEntry(Struct, frozen=True):
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
        gpu: Its GPU. Figures of the link that the node's file leaves out are those of the
            GPU, else those of the kind of link.
    """
    facts = entry.facts
    gpus = int(facts["gpus"].value)
    link, of_link = _between(entry, gpu, gpus)
    if not link.bytes_per_s:
        return None
    every = {"gpus": facts["gpus"], **of_link}
    network = host = None
    if entry.network:  # none of a GPU's links, even of the same kind
        general, inherited = kind(entry.network)
        note = "no file says otherwise: a spine as fast as its leaves"
        full = {"oversubscription": Fact("1", 1.0, "assumed", note=note)}
        out = completed(below(facts, "network"), {**inherited, **full})
        network = stated(general, out)
        every |= under(out, "network")
    if "host.memory" in facts:
        to_host = host_link(gpu)
        inherited = below(gpu.facts, f"links.{to_host.kind}") if to_host else {}
        host = Host(facts["host.memory"].value, to_host)
        every |= under({"memory": facts["host.memory"], **inherited}, "host")
    maximum_w = 0.0
    if "power.maximum" in facts:
        every["power.maximum"] = facts["power.maximum"]
        maximum_w = facts["power.maximum"].value
    return Node(entry.name, entry.title, gpu, gpus, link, network, every, host, maximum_w)


def improvised(gpu: Gpu, gpus: int, link: Link | None) -> Node:
    """Node that no file describes: so many GPUs on one of their links.

    Args:
        gpu, gpus: Its GPU, and the number of them. [1]
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
