"""Settings of a server in no engine's words, and figures of the machine that it runs on."""

from typing import Final, Literal

from msgspec import Struct, field

from roofline.cost.layout import SINGLE, Layout
from roofline.errors import InputError

Of = Literal["device", "free", "static", "tokens"]
Outside = Literal["layers", "bytes", "resident"]
Method = Literal["mtp", "eagle", "ngram", "model"]
METHODS: Final[tuple[Method, ...]] = ("mtp", "eagle", "ngram", "model")
"""Drafts that some engine has: a layer of the target, an EAGLE head, the text, a network."""


class ServerMemory(Struct, frozen=True):
    """Memory that an engine may take, as one of them means it."""

    value: float
    """Share, or tokens. [1]"""
    of: Of = "device"
    """``"device"``: of all memory, for everything. ``"static"``: of all memory, for weights and
    cache. ``"free"``: of what weights and activations leave, for the cache. ``"tokens"``: the
    cache itself, in tokens."""


class OffloadedWeights(Struct, frozen=True):
    """Weights that are kept on the host, as an engine is told it."""

    value: float
    """Share, bytes or layers."""
    of: Outside = "layers"
    """``"layers"``: share of the weights of all layers [1]. ``"bytes"``: of each device [B].
    ``"resident"``: layers that stay on the devices [1]."""


class DraftSettings(Struct, frozen=True):
    """Draft of tokens for the target."""

    method: Method
    """One of `METHODS`."""
    tokens: int
    """Drafted in a row. [token]"""
    model: str = ""
    """Checkpoint of the head or of the network; empty where the target has it, or none is
    needed."""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if self.method not in METHODS:
            raise InputError(
                f"no engine drafts by {self.method!r:.40}", hint=f"drafts: {', '.join(METHODS)}"
            )
        if not 1 <= self.tokens <= 64:
            raise InputError(f"{self.tokens} drafted tokens", hint="give a number from 1 to 64")
        if self.model:
            check_name(self.model)
        if bool(self.model) != (self.method in ("eagle", "model")):
            needs = "needs a checkpoint" if not self.model else "has no checkpoint of its own"
            raise InputError(
                f"a draft by {self.method} {needs}",
                hint="give a draft model with eagle and model, and none with mtp and ngram",
            )


class Adapters(Struct, frozen=True):
    """LoRA adapters that a server has room for."""

    slots: int
    """Adapters of a step, and on a device, at most. [1]"""
    rank: int | None
    """Largest rank; None where the server is not told. [1]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        _check_positive(self, "slots", "rank")


def check_name(model: str) -> None:
    """Refuse a name that a command line would take for a flag, or that cannot be shown."""
    if not model or model.startswith("-"):
        raise InputError(
            f"{model!r:.40} is no name for a model on a command line",
            hint="name a checkpoint; write ./-name for a folder whose name starts with a dash",
        )
    if not model.isprintable():
        raise InputError(
            f"the name {model!r:.60} has characters that cannot be shown",
            hint="rename the folder of the checkpoint",
        )


def _check_positive(of: object, *names: str) -> None:
    """Refuse a field below 1; None is no number."""
    for name in names:
        value = getattr(of, name)
        if value is not None and value < 1:
            said = f"{name.replace('_', ' ')} is {value}"
            raise InputError(said, hint="give a number of 1 or more")


class ReplicaServer(Struct, frozen=True):
    """Settings of a server of one replica."""

    engine: str
    """``"vllm"``, ``"sglang"``, ``"trtllm"`` or ``"llamacpp"``."""
    model: str
    """Checkpoint: hub id or path."""
    layout: Layout = SINGLE
    replicas: int = 1
    """Devices of a replica; how many there are. [1]"""
    weights: str = ""
    """Format that is not the checkpoint's; empty for as stored."""
    kv: str = "auto"
    """Format of the cache; ``"auto"`` for what the engine takes."""
    max_sequences: int | None = None
    token_budget: int | None = None
    """Sequences at once and new tokens of a step, of a whole replica; None for the engine's. [1]"""
    max_context: int | None = None
    """Longest sequence; None for the network's. [token]"""
    memory: ServerMemory | None = None
    """Memory that the engine may take; None for its own default."""
    recv_interval: int = 1
    stream_interval: int = 1
    """Decode steps between looks at new requests; tokens that are sent together. [1] [token]"""
    dp_timeout_iters: int = 0
    """Steps that prompts wait at most until each copy of attention has one. [1]"""
    chunked_prefill: bool = True
    prefix_caching: bool = True
    """True if prompts are cut to fill a step, and if equal prefixes are kept once."""
    cuda_graphs: bool = True
    """True if decode steps may run in CUDA graphs."""
    offloaded: OffloadedWeights | None = None
    """Weights that are kept on the host, if any."""
    speculation: DraftSettings | None = None
    """Draft of tokens, if there is one."""
    adapters: Adapters | None = None
    """LoRA adapters, if it serves any."""

    def __post_init__(self) -> None:
        """Refuse names that an engine would read as something else."""
        check_name(self.model)
        counts = ("max_sequences", "token_budget", "max_context", "recv_interval")
        _check_positive(self, *counts, "stream_interval")


class Room(Struct, frozen=True):
    """Bytes of one device that shares of memory are of."""

    capacity: float
    """Memory that software can use. [B]"""
    weights: float
    activations: float
    reserved: float
    """Taken whatever is cached; ``reserved`` by the runtime and captured graphs. [B]"""
    layers: float
    depth: int
    """The part of the weights that can be kept on the host [B]; in how many layers [1]."""
    token: float
    """A cached token, on average over the longest sequence; 0 where nothing is cached. [B]"""

    @property
    def fixed(self) -> float:
        """Taken whatever is cached. [B]"""
        return self.weights + self.activations + self.reserved


class BenchmarkLoad(Struct, frozen=True):
    """Requests of a benchmark."""

    prompt: int = 2048
    output: int = 256
    """Lengths of each request. [token]"""
    concurrency: int = 16
    """Requests at once. [1]"""

    def __post_init__(self) -> None:
        """Refuse what no benchmark can send."""
        _check_positive(self, "prompt", "output", "concurrency")

    @property
    def requests(self) -> int:
        """Enough for ten rounds. [1]"""
        return 10 * self.concurrency


class Site(Struct, frozen=True):
    """Machine, checkpoint and load that a command is written for."""

    room: Room
    """Bytes of a device."""
    gpu: str
    vendor: str
    """Names of the device and of who makes it."""
    gpus_per_node: int
    """Devices of a node. [1]"""
    stored: str
    """Format of the checkpoint."""
    load: BenchmarkLoad = field(default_factory=BenchmarkLoad)
    port: int = 8000
    """Requests of the benchmark; port of the server."""

    def nodes(self, layout: Layout) -> int:
        """Nodes that a replica lies on. [1]"""
        return -(-int(layout.devices) // self.gpus_per_node)


class PrefillServers(Struct, frozen=True):
    """Servers of prefill, beside those of decode."""

    served: ReplicaServer
    site: Site
