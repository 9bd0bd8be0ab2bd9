"""Fields of the files of ``hwspecs/gpus/``, ``hwspecs/nodes/`` and ``hwspecs/links/``."""

from typing import Annotated, Literal

from pydantic import Field

from roofline.schema import Sourced, SourceEntry, Strict

Text = Annotated[str, Field(min_length=1, max_length=2000)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
Arithmetic = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp6", "fp4", "int4"]
LinkKind = Literal["nvlink", "xgmi", "ici", "ethernet", "infiniband", "c2c", "pcie"]
Topology = Literal["switch", "mesh", "ring", "host"]
Confidence = Literal["high", "medium", "assumed"]


class Claim(Sourced):
    """A truth value and its source."""

    value: bool


class MemoryFile(Strict):
    """Device memory: nominal size, size that software sees, and rate."""

    type: Text
    nominal: Sourced
    visible: Sourced | None = None
    bandwidth: Sourced


class CacheFile(Strict):
    """Last level on chip; its rate directly, or per clock of the device."""

    l2: Sourced | None = None
    l2_bandwidth: Sourced | None = None
    l2_bytes_per_clock: Sourced | None = None


class ComputeFile(Strict):
    """SMs or CUs and the memory inside each of them."""

    multiprocessors: Sourced
    l1: Sourced | None = None
    shared_memory: Sourced | None = None
    shared_memory_per_block: Sourced | None = None
    shared_bytes_per_clock: Sourced | None = None
    clock: Sourced | None = None


class SparsityFile(Strict):
    """Gain of sparse matrices. Never part of a rate."""

    factor: Sourced


class LinkFile(Strict):
    """Wires of one device, per direction; number of the devices they join, and topology."""

    title: str = ""
    topology: Topology | None = None
    bandwidth: Sourced
    latency: Sourced | None = None
    peer: Sourced | None = None
    devices: Sourced | None = None


class PowerFile(Strict):
    """Board power."""

    tdp: Sourced


class PriceFile(Strict):
    """Price of one device."""

    per_hour: Sourced


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
    arithmetic: Annotated[dict[Arithmetic, Sourced], Field(min_length=1)]
    sustained: dict[Arithmetic, Sourced] = Field(default_factory=dict)
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
    bandwidth: Sourced | None = None
    latency: Sourced | None = None
    peer: Sourced | None = None
    reduces: Claim | None = None


class NetworkFile(Strict):
    """Wires out of a node, per device and direction."""

    kind: LinkKind
    bandwidth: Sourced
    latency: Sourced | None = None
    peer: Sourced | None = None
    oversubscription: Sourced | None = None
    reduces: Claim | None = None


class HostFile(Strict):
    """Processors of a node, all together."""

    memory: Sourced


class NodePowerFile(Strict):
    """Power of a whole node."""

    maximum: Sourced


class NodeFile(Strict):
    """One file of ``hwspecs/nodes/``."""

    schema_version: Literal[1]
    name: Name
    title: Text
    gpu: Text
    gpus: Sourced
    link: NodeLinkFile
    network: NetworkFile | None = None
    host: HostFile | None = None
    power: NodePowerFile | None = None
    sources: dict[str, SourceEntry] = Field(default_factory=dict)


class LinkKindFile(Strict):
    """One file of ``hwspecs/links/``: figures that all links of a kind share."""

    schema_version: Literal[1]
    name: LinkKind | Literal["nvme"]
    title: Text
    bandwidth: Sourced | None = None
    latency: Sourced
    peer: Sourced
    sources: dict[str, SourceEntry] = Field(default_factory=dict)
