"""A scenario as the engine takes it: names, axes of numbers, limits, objectives; and its lanes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec import Struct

from roofline.cost.adapters import NO_ADAPTERS, Lora
from roofline.cost.deployment import KEPT, Deployment, Offload
from roofline.cost.moe import UNIFORM, Routing
from roofline.cost.sampling import LIKELIEST, Sampling
from roofline.serving.acceptance import Acceptance
from roofline.serving.drafts import Draft
from roofline.serving.traffic.traffic import Traffic
from roofline.sources import Sources
from roofline.study.choice import Objective as Choosing
from roofline.study.grid import Name, Series
from roofline.study.scenario.limits import Kind
from roofline.study.sweep.keep import FigureLimit, SweepObjective

AUTO: Final = "auto"
"""A format or layout that is not said: that of the checkpoint; the best one."""


class Network(Struct, frozen=True):
    """A network, as it is or changed."""

    name: str
    """Name in the result."""
    model: str
    """Catalog name, hub id or file."""
    changes: str = ""
    """Changes for ``roofline compare --with``: ``"window=1024,weights=int4"``; or empty."""


class ScenarioDraft(Struct, frozen=True):
    """Speculative decoding: what drafts, how often it is accepted, how many tokens in a row."""

    draft: str
    acceptance: str
    length: int = 4
    weights: str | None = None
    acceptance_spread: float = 0.0


class Disaggregation(Struct, frozen=True):
    """A pool that prefills beside one that decodes, which has the scenario's layout."""

    prefill: str
    """Layout of an instance of the pool that prefills."""
    gpu: str = ""
    """GPU of that pool; empty for the scenario's."""
    over: Literal["network", "link"] = "network"
    """Interconnect that caches are sent over."""
    overlapped: bool = False
    """True if each layer's cache is sent while the next is computed."""
    ffn: str = ""
    """Layout of a pool of the feed-forward parts of the instances that decode; empty for none."""
    ffn_over: Literal["network", "link"] = "network"
    """Interconnect that activations go over to that pool."""
    microbatches: int = 0
    """Micro-batches between both; 0 for the best of a few. [1]"""


class Technique(Struct, frozen=True):
    """A way of running a batch, beside formats and layout."""

    name: str = "plain"
    """Name in the result."""
    prefix_hit: float = 0.0
    """Share of the prompt that is cached already. [1]"""
    prefill_batch: int = 0
    """Prompts prefilled in one step; 0 for the whole batch. [1]"""
    overlap: float = 0.0
    """Share of the time of wires that is hidden. [1]"""
    two_batch: bool = False
    """True where two micro-batches hide each other's exchanges with the experts."""
    routing: Routing = UNIFORM
    """Distribution of tokens over experts, and redundant ones."""
    memory_utilization: float | None = None
    """Share of device memory; None for the engine's default. [1]"""
    cuda_graphs: bool = True
    """False where engines are told to run without CUDA graphs."""
    sampling: Sampling = LIKELIEST
    """Choice of the next token."""
    lora: Lora = NO_ADAPTERS
    """LoRA adapters that requests ask for."""
    kv_cache: bool = True
    """False to compute the whole context again for every token."""
    samples: int = 1
    """Answers to each prompt. [1]"""
    offload: Offload = KEPT
    """Weights and cache that are kept on the host."""
    speculation: ScenarioDraft | None = None
    disaggregation: Disaggregation | None = None
    """None for a target that decodes alone, on the devices that prefill."""

    @property
    def simple(self) -> bool:
        """True if it is one batch on one deployment, the same for all batches and lengths."""
        apart = self.speculation is not None or self.disaggregation is not None
        return not (apart or self.branched or self.offload.least)

    @property
    def branched(self) -> bool:
        """True for several answers or beams of each prompt."""
        return self.samples > 1 or self.sampling.beams > 1


PLAIN: Final = Technique()


class Patch(Struct, frozen=True):
    """A variant of the whole scenario; None and empty for what is not changed."""

    name: str = "base"
    """Name in the result."""
    memory_bytes: float | None = None
    hbm_bytes_per_s: float | None = None
    usd_per_hour: float | None = None
    """Figures of the GPU. [B] [B/s] [$/h]"""
    changes: str = ""
    """Changes of the network, as in `Network`."""
    weights: str = ""
    kv: str = ""
    engine: str = ""
    layout: str = ""
    technique: Technique | None = None
    """Names and technique in place of those of the axes."""


BASE: Final = Patch()


class LayoutsOnGpus(Struct, frozen=True):
    """Layouts that are found rather than named."""

    gpus: tuple[int, ...]
    """Devices of a replica. [1]"""
    choose: Choosing | Literal[""] = ""
    """Objective of the best layout; empty for every possible one."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Configurations to price, and what is wanted of them.

    Attributes:
        name, title, about, kind: What it is called, asks and is about.
        models, machines, layouts, weights, kv, engines, techniques, patches: Names to combine.
            Machines are GPUs, or nodes where ``nodes`` is true; formats may be `AUTO`.
        workloads, policies: Of a traffic scenario: what comes, and how steps are filled, empty for
            the engine's default.
        numbers: Axes of numbers by column.
        zipped: Columns whose axes go together.
        limits, objectives: In the order in which they are told and looked at.
        prices: Of GPUs, by name. [$/h]
        keep: ``"all"``, ``"feasible"``, ``"pareto"`` or ``"top-K"``.
        each: Columns of names: of each combination of them the best is kept.
        calibration: As `roofline.api.analyze` takes it.
        seed: Same seed, same requests. [1]
        static: Whether times of static batches are shown and wanted, not those of a server that is
            kept full.
        said: Digest of what it says.
        sources: Files that were read to resolve its names.
        source: Where it was read.
    """

    name: str
    title: str
    kind: Kind
    models: tuple[Network, ...]
    machines: tuple[str, ...]
    nodes: bool
    layouts: tuple[str, ...] | LayoutsOnGpus
    weights: tuple[str, ...]
    kv: tuple[str, ...]
    engines: tuple[str, ...]
    techniques: tuple[Technique, ...]
    patches: tuple[Patch, ...]
    numbers: Mapping[str, Series]
    zipped: tuple[tuple[str, ...], ...]
    limits: tuple[FigureLimit, ...]
    objectives: tuple[SweepObjective, ...]
    prices: Mapping[str, float]
    keep: str
    calibration: str
    seed: int
    workloads: tuple[Traffic, ...] = ()
    policies: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    about: str = ""
    static: bool = False
    said: str = field(default="", compare=False)
    sources: Sources = field(default_factory=Sources, compare=False, repr=False)
    source: str = field(default="", compare=False)


class DraftAxis(Struct, frozen=True):
    """Draft, its acceptance rates, and the tokens drafted in a row."""

    draft: Draft
    acceptance: Acceptance
    length: int


class SliceDeployment(Struct, frozen=True):
    """Deployment that the points of a lane are priced on."""

    labels: Mapping[str, Name]
    """Its columns of names, as resolved: formats, degrees, node."""
    deployment: Deployment | None = None
    """None where there can be none."""
    technique: Technique = PLAIN
    """Technique that batches are run with."""
    drafting: DraftAxis | None = None
    prefill: Deployment | None = None
    """Draft, and an instance of the pool that prefills, of a technique that has them."""
    traffic: Traffic | None = None
    policy: str = ""
    misses: Mapping[str, float] = {}
    """Traffic and policy of a traffic scenario; end-to-end errors of the engine's predictions, log
    standard deviations by metric. [1]"""
    limit: str = ""
    reason: str = ""
    """Obstacle to a deployment, in a word and in a sentence."""

    @property
    def bounded(self) -> bool:
        """True if its times are at published rates: the least possible, and no forecast."""
        both = (self.deployment, self.prefill)
        return any(each is not None and each.calibration is None for each in both)
