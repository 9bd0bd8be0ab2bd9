"""Deployments, constant along the scenario axis: network, node, formats, layout, options."""

from typing import Any, Final, Literal, TypeAlias

import numpy as np
from msgspec import Struct

from roofline.cost.adapters import NO_ADAPTERS, Lora, modules
from roofline.cost.attention import Mask
from roofline.cost.collectives import Ranks
from roofline.cost.engine_costs import ALONE, IDEAL, EngineCosts, KernelGains, eager
from roofline.cost.layout import SINGLE, Layout, check_engine, check_layout, group
from roofline.cost.measured import Calibration
from roofline.cost.moe import UNIFORM, Routing
from roofline.cost.sampling import LIKELIEST, Sampling
from roofline.cost.work import Number
from roofline.errors import InputError, LayoutError
from roofline.hardware.links import host_link
from roofline.hardware.machine import Node
from roofline.hardware.serving_engine import Engine
from roofline.model.architecture import UNQUANTISED, Architecture, Block
from roofline.model.precision import Precision
from roofline.model.tower import TEXT_ALONE, Media, check_media
from roofline.records import replace
from roofline.table import USUAL_KERNELS
from roofline.version import __version__

Fusing: TypeAlias = Literal["engine", "none", "all"]


class Options(Struct, frozen=True):
    """Choices about what is run and how it is counted."""

    attention: Literal["flash", "naive"] = "flash"
    """``"flash"``: scores stay on chip. ``"naive"``: they go through device memory."""
    fusion: Fusing = "engine"
    """Passes over activations that are kernels of their own: those of serving engines; ``"none"``
    for one kernel for each operation of the published code; ``"all"`` where every pass that a
    neighbour could do at its end or beginning is part of it."""
    mask: Mask = "causal"
    """Pairs that count as work: what a causal kernel does, or the whole square."""
    logits: Literal["last", "all"] = "last"
    """``"last"``: the LM head runs for the last token of each sequence, as serving engines do.
    ``"all"``: for every token, as forward passes are counted."""
    mla: Literal["auto", "expanded", "absorbed"] = "auto"
    """Form of latent attention: the one that takes less time, or one of them always."""
    routing: Routing = UNIFORM
    """Distribution of tokens over experts."""
    ring_attention: bool = False
    """True where context parallelism passes keys and values around a ring while it attends, instead
    of gathering them first."""
    overlap: float = 0.0
    """Share of the time of wires between devices that is hidden behind other work. [1]"""
    two_batch: bool = False
    """True where a step is two micro-batches, of which one computes while tokens of the other go to
    their experts or come back."""
    cuda_graphs: bool = True
    """True where the engine may run decode steps in CUDA graphs."""
    sampling: Sampling = LIKELIEST
    """Choice of the next token: temperature, top-k, top-p, samples, beams."""
    lora: Lora = NO_ADAPTERS
    """Adapters that requests ask for."""
    media: Media = TEXT_ALONE
    """Pictures and recordings in each prompt."""
    split_kv: bool = True
    """Whether several blocks share the keys of a sequence in decode, so that no multiprocessor is
    without work; False where a block has all keys of a sequence and head."""
    sram_bytes: float = 0.0
    """On-chip memory that attention to prompts has, with no cache behind it; 0 for the device's own
    with its last-level cache. [B]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if not 0 <= self.overlap <= 1:
            raise InputError(f"overlap is {self.overlap:g}", hint="give a share from 0 to 1")
        if not 0 <= self.sram_bytes < float("inf"):
            raise InputError(f"on-chip memory is {self.sram_bytes:g} B", hint="give it like 100KiB")


class Offload(Struct, frozen=True):
    """Shares that are kept outside device memory and loaded when they are needed."""

    weights: float = 0.0
    """Share of the weights of every layer; embedding and LM head stay. [1]"""
    kv: float = 0.0
    """Share of the cache. [1]"""
    to: Literal["cpu", "nvme"] = "cpu"
    """``"cpu"``: the host's memory. ``"nvme"``: its storage, through that memory."""
    prefetch: bool = True
    """True where the next layer is loaded while one computes."""
    least: bool = False
    """True where the share of the weights is the least with which they fit, and follows changes."""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for name, share in (("weights", self.weights), ("kv", self.kv)):
            if not 0 <= share <= 1:
                raise InputError(
                    f"offloaded share of {name} is {share:g}", hint="give a share from 0 to 1"
                )
        if self.to not in ("cpu", "nvme"):
            raise InputError(f"offload to {self.to!r:.20}", hint="it is cpu or nvme")

    @property
    def any(self) -> bool:
        """True where anything is kept outside."""
        return self.weights > 0 or self.kv > 0

    @property
    def ahead(self) -> bool:
        """True where something is loaded ahead."""
        return self.any and self.prefetch


KEPT: Final = Offload()
"""Everything in device memory."""


class FeedForwardPool(Struct, frozen=True):
    """Devices of their own for the feed-forward parts of a replica whose others do the rest.

    Micro-batches go to and fro between both, one visit of each for every layer.
    Source: MegaScale-Infer, Zhu et al. 2025 (arXiv 2504.02263); Step-3, StepFun 2025
    (arXiv 2507.19427).
    """

    deployment: "Deployment"
    """Network of feed-forward parts alone, its layout and node."""
    microbatches: int
    """Micro-batches that take turns. [1]"""
    over: Literal["network", "link"] = "network"
    """``"network"``, or ``"link"`` where one node holds both pools."""


class Deployment(Struct, frozen=True):
    """A replica of a network on one or several nodes."""

    architecture: Architecture
    node: Node
    precision: Precision
    engine: Engine
    layout: Layout = SINGLE
    """Layout over devices. One whose degrees are arrays is taken as checked."""
    options: Options = Options()
    offload: Offload = KEPT
    """Shares that are kept in the host's memory or storage."""
    calibration: Calibration | None = None
    """Measured rates of the device; None for the datasheet's."""
    ffn: FeedForwardPool | None = None
    """Pool of the feed-forward parts, which the network then lacks; None where all is in one. The
    groups of the layout with sequences of their own are instances that feed it."""
    fed: bool = False
    """True for such a pool: tokens come routed, straight to the devices of their experts."""

    @property
    def weights_name(self) -> str:
        """Name of the weights' number format, or of the GGUF mix of several."""
        return self.architecture.mix or self.precision.weights.name

    def stored(self, block: Block | None, role: str) -> str:
        """Number format of the matrix of a role, in a layer or outside all layers."""
        network, precision = self.architecture, self.precision
        if role == "lm-head":
            return network.head_format or precision.head.name
        default = precision.head.name if role in UNQUANTISED else precision.weights.name
        return block.stored(role, default) if block is not None else default

    def __post_init__(self) -> None:
        """Refuse layouts that cannot be, and kernels that the network has no use for."""
        naive = self.options.attention == "naive"
        if naive and self._keeps_latents:
            raise InputError(
                f"attention with scores in memory is not priced for {self.architecture.name}",
                hint="it is for plain attention; leave `attention` at flash",
            )
        if naive and np.any(self.layout.cp != 1):
            raise InputError(
                "context parallelism is not priced with scores in memory",
                hint="leave `attention` at flash",
            )
        k, vocab = self.options.sampling.top_k, self.architecture.vocab
        if k > vocab:
            raise InputError(
                f"top-k is {k:,}, {self.architecture.name} has a vocabulary of {vocab:,}",
                hint="give fewer, or 0 for all",
            )
        moved = self.offload.any or self.offload.least
        if moved and host_link(self.node.gpu) is None:
            raise InputError(
                f"{self.node.gpu.name} has no link to a host in its file",
                hint="keep everything in its memory, or add links.pcie to a file of your own",
            )
        self._check_adapters()
        if self.architecture.towers or self.options.media != TEXT_ALONE:
            check_media(self.architecture, self.options.media)
        if self.exchanges and self.layout.pp > 1:
            raise LayoutError(
                "two micro-batches in a pipeline, which has its own",
                hint="leave `two_batch` or `pp` out",
            )
        if self.options.two_batch and self.options.overlap:
            raise InputError(
                "a share of the interconnect is hidden, and two micro-batches hide it too",
                hint="give `overlap` or `two_batch`",
            )
        if not self.layout.is_axis:
            alone = self.layout if self.ffn is None else replace(self.layout, dp=1)
            redundant = self.options.routing.redundant
            check_layout(self.architecture, alone, self.node, redundant)
            check_engine(self.engine, self.layout)

    def _check_adapters(self) -> None:
        """Refuse adapters of layers that the network does not have, and those that cannot come."""
        lora, network = self.options.lora, self.architecture
        if not lora.adapters:
            return
        kinds = [
            (block, linear.name)
            for block in network.kinds
            for linear in block.linears(network.d_model)
        ]
        known = list(dict.fromkeys(role for block, role in kinds if modules(block, role)))
        hint = f"{network.name} takes adapters on {', '.join(known)}"
        if wrong := [role for role in lora.targets if role not in known]:
            raise InputError(f"no linear layer {wrong[0]!r:.40} that takes an adapter", hint=hint)
        if lora.moves and host_link(self.node.gpu) is None:
            raise InputError(
                f"{self.node.gpu.name} has no link to a host in its file, from which adapters "
                "would be loaded",
                hint="keep all of them on the device: leave out `max_loras`",
            )

    @property
    def _keeps_latents(self) -> bool:
        """True where attention is of a kind that has no price with scores in memory."""
        mixers = [block.mixer for block in self.architecture.kinds if block.mixer is not None]
        return not all(mixer.stores_scores for mixer in mixers)

    @property
    def naive(self) -> bool:
        """True where scores of attention go through device memory: asked for, or the engine's way.

        Latents, and contexts that devices share, have no price but that of fused kernels.
        """
        if self.options.attention == "naive":
            return True
        fused = self.engine.flash_attention or self._keeps_latents or np.any(self.layout.cp != 1)
        return not fused

    @property
    def fusion(self) -> Fusing:
        """Passes over activations that are kernels of their own, as of `Options`."""
        asked = self.options.fusion
        return "none" if asked == "engine" and not self.engine.fuses else asked

    @property
    def kernel_gains(self) -> KernelGains:
        """Factors on measured kernels where the engine runs them; none at datasheet rates."""
        if self.calibration is None:
            return ALONE
        gains = self.calibration.profile.gains
        if self.fusion == "none":  # part of what engines save is that they fuse
            gains = replace(gains, passes=1.0, start_pass=1.0)
        if not self.options.routing.redundant:  # copies even the groups out
            apart = self.calibration.profile.experts_apart
            gains = replace(
                gains, experts=gains.experts * np.where(self.layout.ep > 1, apart, 1.0)[()]
            )
        return gains if self.options.cuda_graphs else eager(gains)

    @property
    def basis(self) -> str:
        """Basis of figures of it: the datasheet's, or that of its calibration."""
        return "datasheet" if self.calibration is None else self.calibration.basis

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of a result about it: what answered, and what was asked about."""
        return {
            **({"calibration": USUAL_KERNELS} if self.basis == "assumed" else {}),
            "version": __version__,
            "model": self.architecture.name,
            "gpu": self.node.gpu.name,
            "gpu_title": self.node.gpu.title,
            "gpus": self.devices,
            "layout": self.layout.spelled,
            "engine": self.engine.name,
            "weights": self.weights_name,
            "kv": self.precision.kv.name,
        }

    @property
    def engine_costs(self) -> EngineCosts:
        """Overheads of the engine's software; none at datasheet rates."""
        return self.costs_on(self.layout.dp)

    @property
    def engine_file(self) -> str:
        """File that has the constants of the engine's software: the user's own, or as shipped."""
        own = self.calibration.profile.source if self.calibration is not None else ""
        return own or f"hwspecs/calibrations/engines/{self.engine.profile}.yaml"

    def costs_on(self, groups: Number) -> EngineCosts:
        """Overheads of the engine's software where groups of devices have sequences of their own.

        Args:
            groups: How many there are. [1]
        """
        known = self.calibration
        if known is None:
            return IDEAL
        return known.profile.costs(self.architecture, self.node.gpu, groups)

    @property
    def tp(self) -> Number:
        """Tensor-parallel degree. [1]"""
        return self.layout.tp

    @property
    def sequences(self) -> int:
        """Most sequences at once by default, of each group with sequences of its own. [1]"""
        return self.engine.sequences_on(self.node.gpu)

    @property
    def step_tokens(self) -> Number:
        """Most new tokens of a step of all such groups by default; 0 for no limit. [token]"""
        return self.engine.step_tokens_on(self.node.gpu, self.layout.dp)

    @property
    def cuda_graphs(self) -> bool:
        """True where decode steps run in CUDA graphs: the engine has them, and may use them."""
        return self.options.cuda_graphs and self.engine.graph_kernels

    @property
    def graph_bytes(self) -> float:
        """Device memory taken by captured CUDA graphs; none without them. [B]"""
        return self.engine.graph_bytes if self.options.cuda_graphs else 0.0

    @property
    def pools(self) -> tuple["Deployment", ...]:
        """The deployment itself, and the pool of its feed-forward parts where they have one."""
        return (self,) if self.ffn is None else (self, self.ffn.deployment)

    @property
    def turns(self) -> int:
        """Micro-batches that take turns: of a feed-forward pool, two, or one for each stage. [1]"""
        if self.ffn is not None:
            return self.ffn.microbatches
        return 2 if self.exchanges else self.layout.pp

    @property
    def exchanges(self) -> bool:
        """True where two micro-batches hide each other's way to the experts and back.

        Layouts along the scenario axis, of which only some send tokens to experts, never do.
        """
        if not self.options.two_batch or self.layout.is_axis or self.ffn is not None or self.fed:
            return False
        return bool(self.layout.apart and self.layout.ep > 1)

    @property
    def to_and_fro(self) -> bool:
        """True where micro-batches visit the same resources once a layer, not each stage once."""
        return self.ffn is not None or self.exchanges

    @property
    def devices(self) -> int:
        """Devices of the replica. [1]"""
        return sum(int(pool.layout.devices) for pool in self.pools)

    @property
    def spelled(self) -> str:
        """Layout as the command line takes it; of both pools one after the other."""
        return " + ".join(pool.layout.spelled for pool in self.pools)

    @property
    def usd_per_hour(self) -> float:
        """Price of all devices; 0 where one kind has none. [$/h]"""
        prices = [pool.layout.devices * pool.node.gpu.usd_per_hour for pool in self.pools]
        return float(sum(prices)) if all(prices) else 0.0

    @property
    def watts(self) -> float:
        """Board power of all devices. [W]"""
        return float(sum(pool.layout.devices * pool.node.gpu.tdp_w for pool in self.pools))

    def ranks(self, size: Number, stride: Number = 1) -> Ranks:
        """Devices that talk to each other, as they lie on nodes."""
        return group(self.layout, self.node, size, stride)
