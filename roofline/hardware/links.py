"""What all links of a kind have in common (``hwspecs/links/``), and what a machine adds to it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from roofline.content import shipped
from roofline.hardware.machine import Fact, Gpu, Link
from roofline.kept import kept

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
        from roofline.hardware.reading import read_kind

        return read_kind(path)

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
