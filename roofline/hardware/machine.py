"""A GPU, a link and a node as the formulas see them: frozen, in base units."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, structs

from roofline.errors import MissingRateError
from roofline.units import show

SPARSE: Final = "-2:4"
"""Suffix of arithmetic in which two of every four weights are zero and skipped."""
SPARSE_TYPES: Final = frozenset({"tf32", "fp16", "bf16", "fp8", "int8"})
"""Types whose sparse multiplier takes that pattern; fp4 wants pairs (4:8).
NVIDIA A100 and H100 whitepapers; PTX ISA, ``mma.sp``."""
SPARSE_GAIN: Final = 2.0
"""Half the multiplications are left out. Where a file states another gain it is of fp4."""

TOPOLOGIES: Final[Mapping[str, str]] = {
    "nvlink": "switch",
    "infiniband": "switch",
    "ethernet": "switch",
    "xgmi": "mesh",
    "ici": "ring",
    "pcie": "host",
    "c2c": "host",
    "nvme": "host",
}
"""Usual topology of a link of that kind."""


class Fact(Struct, frozen=True):
    """A figure as its file states it."""

    text: str
    """Text as written: ``"3.35 TB/s"``."""
    value: float
    """Figure in base units."""
    source: str
    """Title of the document, or ``"assumed"``."""
    where: str = ""
    """Place in the document."""
    note: str = ""
    """Remark that a reader should know."""
    location: str = ""
    """``file:line:column`` of the figure in its file."""
    date: str = ""
    """Date of a figure that changes, as prices do."""

    @property
    def basis(self) -> str:
        """``"assumed"`` for a guess, else ``"datasheet"``."""
        return "assumed" if self.source == "assumed" else "datasheet"


class Link(Struct, frozen=True):
    """Wires of one device.

    Examples:
        >>> Link("xgmi", 448.0, devices=8).topology
        'mesh'
        >>> Link("infiniband", 50.0, oversubscription=2.0).rate_between_nodes
        25.0
    """

    kind: str
    """``"nvlink"``, ``"pcie"``, ``"xgmi"``, ``"ici"``, ``"ethernet"``, ``"infiniband"``;
    ``"c2c"`` leads to the host's processor, ``"nvme"`` to a drive."""
    bytes_per_s: float
    """Rate in one direction, all wires of the device together. [B/s]"""
    latency_s: float = 0.0
    """One message between two devices, as a communication library sees it at best; 0 if
    unknown. [s]"""
    title: str = ""
    """Name that the vendor gives it: ``"NVLink4"``."""
    devices: int = 0
    """Most that these wires join, 0 if not stated. [1]"""
    topology: str = ""
    """``"switch"``: any pair at the full rate. ``"mesh"``: a wire of its own for every pair, so
    that one peer gets 1 / (devices - 1) of the rate. ``"ring"``: neighbours only, along every
    axis of a torus. ``"host"``: through the host's PCIe. That of the kind if left out."""
    reduces: bool = False
    """True if the switch itself sums and multicasts, as NVLink SHARP does."""
    per_peer_s: float = 0.0
    """Each further peer that a device addresses in the same round. [s]"""
    oversubscription: float = 1.0
    """Rate of a network's leaves over that of its spine, at least 1. [1]"""

    def __post_init__(self) -> None:
        """Take the topology of the kind where none is given."""
        structs.force_setattr(self, "topology", self.topology or TOPOLOGIES[self.kind])

    @property
    def rate_between_nodes(self) -> float:
        """Rate of a device through the spine when all devices send. [B/s]"""
        return self.bytes_per_s / self.oversubscription


class Gpu(Struct, frozen=True):
    """One accelerator at its published rates."""

    name: str
    title: str
    vendor: str
    architecture: str
    """Catalog name; name that the vendor gives it; vendor; generation."""
    flops_per_s: Mapping[str, float]
    """Dense matrix arithmetic by type (``fp32`` is the vector rate). [FLOP/s]"""
    memory_bytes: float
    """Memory that software can use: visible capacity where known, else nominal. [B]"""
    nominal_bytes: float
    """Nominal capacity, as sold. [B]"""
    hbm_bytes_per_s: float
    l2_bytes: float
    l2_bytes_per_s: float
    """Device memory rate [B/s]; last-level cache capacity [B] and rate [B/s], 0 if unknown."""
    multiprocessors: float
    shared_bytes: float
    """SMs or CUs [1]; on-chip memory of one of them that a kernel can use [B]."""
    shared_bytes_per_s: float
    """All on-chip memories together, 0 if unknown. [B/s]"""
    clock_hz: float
    """Boost clock, 0 if unknown. [Hz]"""
    links: Mapping[str, Link]
    """Links by kind; the first is the one between devices of a node."""
    tdp_w: float
    usd_per_hour: float
    """Board power, 0 if unknown [W]; price of one device for an hour, 0 if none is assumed
    [$/h]."""
    facts: Mapping[str, Fact] = {}
    """The figures with sources, by their dotted path in the file (``"arithmetic.bf16"``,
    ``"memory.visible"``, ``"power.tdp"``); ``"hbm"`` is the rate of the device memory.
    ``"cache.l2_bandwidth"`` and ``"compute.shared_bandwidth"`` may be products of others."""
    aliases: tuple[str, ...] = ()
    """Other names."""
    sustained: float = 0.0
    """Share of the dense rate that large products kept up in a public benchmark, 0 if unknown:
    power may bound it, and a clock beyond the published one exceed 1. [1]"""
    confidence: str = ""
    notes: str = ""
    """Confidence in the published figures, ``"high"``, ``"medium"`` or ``"assumed"``; doubts about
    them."""

    def rate(self, arithmetic: str) -> float:
        """Dense rate of an arithmetic type; of ``"bf16-2:4"``, that on 2:4-sparse weights. [FLOP/s]

        Raises:
            MissingRateError: The device has no such arithmetic.
        """
        if arithmetic in self.flops_per_s:
            return self.flops_per_s[arithmetic]
        if arithmetic.endswith(SPARSE):
            return self._sparse_rate(arithmetic.removesuffix(SPARSE))
        has = ", ".join(f"{name} ({show(r, 'FLOP/s')})" for name, r in self.flops_per_s.items())
        raise MissingRateError(f"{self.name} has no {arithmetic} arithmetic", hint=f"it has {has}")

    def _sparse_rate(self, arithmetic: str) -> float:
        """Rate with two of every four weights zero. [FLOP/s]"""
        dense, factor = self.rate(arithmetic), self.facts.get("sparsity.factor")
        if arithmetic in SPARSE_TYPES and factor is not None and factor.value == SPARSE_GAIN:
            return SPARSE_GAIN * dense
        said = f"its file says: {factor.note}" if factor else "its file states no sparse rate"
        raise MissingRateError(
            f"{self.name} has no {arithmetic} arithmetic for 2:4-sparse weights",
            hint=f"{said}; unstructured zeros (`changes` sparsity=0.5) need no such rate",
        )

    def ridge(self, arithmetic: str) -> float:
        """Intensity at which compute and memory take equally long. [FLOP/B]"""
        return self.rate(arithmetic) / self.hbm_bytes_per_s


class Host(Struct, frozen=True):
    """Processors of a node, to which weights and cache can be offloaded."""

    memory_bytes: float
    """Memory of the node, for all its devices together. [B]"""
    link: Link | None
    """Link from one device to it; None if its file names none."""


class Node(Struct, frozen=True):
    """Devices that share one scale-up network."""

    name: str
    title: str
    """Catalog name and usual name."""
    gpu: Gpu
    gpus: int
    """Its GPU, and the number of them. [1]"""
    link: Link | None
    """Link between any two devices of the node."""
    network: Link | None = None
    """Link out of the node, per device; None for a box that stands alone."""
    facts: Mapping[str, Fact] = {}
    """The figures with sources, wherever they are inherited from: ``"link.bandwidth"``,
    ``"link.latency"``, ``"link.peer"``, the same of ``network`` and ``host``,
    ``"network.oversubscription"``, ``"host.memory"``, ``"power.maximum"``."""
    host: Host | None = None
    """Its processors; None if their memory is not stated."""
    maximum_w: float = 0.0
    """Maximum power of the whole node, GPUs included; 0 where none is stated. [W]"""
