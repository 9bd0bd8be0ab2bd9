"""Fields of the files of ``hwspecs/gpus/``, ``hwspecs/nodes/`` and ``hwspecs/links/``."""

from typing import Annotated, Literal

from pydantic import Field

from roofline.schema import SourcedFigure, SourceEntry, Strict

Text = Annotated[str, Field(min_length=1, max_length=2000)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
Arithmetic = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp6", "fp4", "int4"]
LinkKind = Literal["nvlink", "xgmi", "ici", "ethernet", "infiniband", "c2c", "pcie"]
Topology = Literal["switch", "mesh", "ring", "host"]
Confidence = Literal["high", "medium", "assumed"]


class Claim(SourcedFigure):
    """A truth value and its source."""

    value: bool


class MemoryFile(Strict):
    """Device memory: nominal size, size that software sees, and rate."""

    type: Text
    nominal: SourcedFigure
    visible: SourcedFigure | None = None
    bandwidth: SourcedFigure


class CacheFile(Strict):
    """Last level on chip; its rate directly, or per clock of the device."""

    l2: SourcedFigure | None = None
    l2_bandwidth: SourcedFigure | None = None
    l2_bytes_per_clock: SourcedFigure | None = None


class ComputeFile(Strict):
    """SMs or CUs and the memory inside each of them."""

    multiprocessors: SourcedFigure
    l1: SourcedFigure | None = None
    shared_memory: SourcedFigure | None = None
    shared_memory_per_block: SourcedFigure | None = None
    shared_bytes_per_clock: SourcedFigure | None = None
    clock: SourcedFigure | None = None


class SparsityFile(Strict):
    """Gain of sparse matrices. Never part of a rate."""

    factor: SourcedFigure


class LinkFile(Strict):
    """Wires of one device, per direction; number of the devices they join, and topology."""

    title: str = ""
    topology: Topology | None = None
    bandwidth: SourcedFigure
    latency: SourcedFigure | None = None
    peer: SourcedFigure | None = None
    devices: SourcedFigure | None = None


class PowerFile(Strict):
    """Board power."""

    tdp: SourcedFigure


class PriceFile(Strict):
    """Price of one device."""

    per_hour: SourcedFigure


class Agreement(Strict):
    """A source that was compared."""

    source: Text
    note: str = ""


class ProvenanceFile(Strict):
    """Confidence in the figures, and doubts about them."""

    confidence: Confidence
    also: tuple[Agreement, ...] = ()
    recheck: str = ""
    notes: str = ""


class GpuFile(Strict):
    """One file of ``hwspecs/gpus/``."""

    schema_version: Literal[1]
    name: Name
    title: Text
    vendor: Text
    architecture: Text
    chip: str = ""
    aliases: tuple[Text, ...] = ()
    memory: MemoryFile
    cache: CacheFile = CacheFile()
    compute: ComputeFile
    arithmetic: Annotated[dict[Arithmetic, SourcedFigure], Field(min_length=1)]
    sustained: dict[Arithmetic, SourcedFigure] = Field(default_factory=dict)
    sparsity: SparsityFile | None = None
    links: dict[LinkKind, LinkFile] = Field(default_factory=dict)
    power: PowerFile | None = None
    price: PriceFile | None = None
    provenance: ProvenanceFile | None = None
    sources: dict[str, SourceEntry] = Field(default_factory=dict)


class NodeLinkFile(Strict):
    """Wires between the devices of a node; the GPU's file has the figures that are left out."""

    kind: LinkKind
    topology: Topology | None = None
    bandwidth: SourcedFigure | None = None
    latency: SourcedFigure | None = None
    peer: SourcedFigure | None = None
    reduces: Claim | None = None


class NodeNetworkFile(Strict):
    """Wires out of a node, per device and direction."""

    kind: LinkKind
    bandwidth: SourcedFigure
    latency: SourcedFigure | None = None
    peer: SourcedFigure | None = None
    oversubscription: SourcedFigure | None = None
    reduces: Claim | None = None


class HostFile(Strict):
    """Processors of a node, all together."""

    memory: SourcedFigure


class NodePowerFile(Strict):
    """Power of a whole node."""

    maximum: SourcedFigure


class NodeFile(Strict):
    """One file of ``hwspecs/nodes/``."""

    schema_version: Literal[1]
    name: Name
    title: Text
    gpu: Text
    gpus: SourcedFigure
    link: NodeLinkFile
    network: NodeNetworkFile | None = None
    host: HostFile | None = None
    power: NodePowerFile | None = None
    sources: dict[str, SourceEntry] = Field(default_factory=dict)


class LinkKindFile(Strict):
    """One file of ``hwspecs/links/``: figures that all links of a kind share."""

    schema_version: Literal[1]
    name: LinkKind | Literal["nvme"]
    title: Text
    bandwidth: SourcedFigure | None = None
    latency: SourcedFigure
    peer: SourcedFigure
    sources: dict[str, SourceEntry] = Field(default_factory=dict)
