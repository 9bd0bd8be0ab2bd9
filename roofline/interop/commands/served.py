"""What a server is told, in no engine's words, and what is known of the machine that it runs on."""

from dataclasses import dataclass, field
from typing import Final, Literal

from roofline.cost.layout import SINGLE, Layout
from roofline.errors import InputError

Of = Literal["device", "free", "static", "tokens"]
Outside = Literal["layers", "bytes", "resident"]
Method = Literal["mtp", "eagle", "ngram", "model"]
METHODS: Final[tuple[Method, ...]] = ("mtp", "eagle", "ngram", "model")
"""Drafts that some engine has: a layer of the target, an EAGLE head, the text, a network."""


@dataclass(frozen=True, slots=True)
class Share:
    """Memory that an engine may take, as one of them means it.

    Attributes
    ----------
    value
        Share, or tokens. [1]
    of
        ``"device"``: of all memory, for everything. ``"static"``: of all memory, for weights and
        cache. ``"free"``: of what weights and activations leave, for the cache. ``"tokens"``: the
        cache itself, in tokens.
    """

    value: float
    of: Of = "device"


@dataclass(frozen=True, slots=True)
class Offloaded:
    """Weights that are kept on the host, as an engine is told it.

    Attributes
    ----------
    value
        Share, bytes or layers.
    of
        ``"layers"``: share of the weights of all layers [1]. ``"bytes"``: of each device [B].
        ``"resident"``: layers that stay on the devices [1].
    """

    value: float
    of: Outside = "layers"


@dataclass(frozen=True, slots=True)
class Speculation:
    """What drafts tokens for the target.

    Attributes
    ----------
    method
        One of `METHODS`.
    tokens
        Drafted in a row. [token]
    model
        Checkpoint of the head or of the network; empty where the target has it, or none is needed.
    """

    method: Method
    tokens: int
    model: str = ""

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


def check_name(model: str) -> None:
    """Refuse a name that a command line would take for a flag, or that cannot be shown.

    Raises
    ------
    InputError
        It is empty, starts with a dash, or has control characters.
    """
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


@dataclass(frozen=True, slots=True)
class Served:
    """What a server of one replica is told.

    Attributes
    ----------
    engine
        ``"vllm"``, ``"sglang"``, ``"trtllm"`` or ``"llamacpp"``.
    model
        Checkpoint: hub id or path.
    layout, replicas
        Devices of a replica; how many there are. [1]
    weights
        Format that is not the checkpoint's; empty for as stored.
    kv
        Format of the cache; ``"auto"`` for what the engine takes.
    max_sequences, token_budget
        Sequences at once and new tokens of a step, of a whole replica; None for the engine's. [1]
    max_context
        Longest sequence; None for the network's. [token]
    memory
        What the engine may take; None for its own default.
    recv_interval, stream_interval
        Decode steps between looks at new requests; tokens that are sent together. [1] [token]
    chunked_prefill, prefix_caching
        Whether prompts are cut to fill a step; whether equal prefixes are kept once.
    cuda_graphs
        Whether decode steps may run in CUDA graphs.
    offloaded
        Weights that are kept on the host, if any.
    speculation
        What drafts, if anything.
    """

    engine: str
    model: str
    layout: Layout = SINGLE
    replicas: int = 1
    weights: str = ""
    kv: str = "auto"
    max_sequences: int | None = None
    token_budget: int | None = None
    max_context: int | None = None
    memory: Share | None = None
    recv_interval: int = 1
    stream_interval: int = 1
    chunked_prefill: bool = True
    prefix_caching: bool = True
    cuda_graphs: bool = True
    offloaded: Offloaded | None = None
    speculation: Speculation | None = None

    def __post_init__(self) -> None:
        """Refuse names that an engine would read as something else."""
        check_name(self.model)
        for name in (
            "max_sequences",
            "token_budget",
            "max_context",
            "recv_interval",
            "stream_interval",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(
                    f"{name.replace('_', ' ')} is {value}", hint="give a number of 1 or more"
                )


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of one device that shares of memory are of.

    Attributes
    ----------
    capacity
        What software can use of it. [B]
    weights, activations, reserved
        Taken whatever is cached; ``reserved`` by the runtime and captured graphs. [B]
    layers, depth
        The part of the weights that can be kept on the host [B]; in how many layers [1].
    token
        A cached token, on average over the longest sequence; 0 where nothing is cached. [B]
    """

    capacity: float
    weights: float
    activations: float
    reserved: float
    layers: float
    depth: int
    token: float

    @property
    def fixed(self) -> float:
        """Taken whatever is cached. [B]"""
        return self.weights + self.activations + self.reserved


@dataclass(frozen=True, slots=True)
class Load:
    """What a benchmark sends.

    Attributes
    ----------
    prompt, output
        Of each request. [token]
    concurrency
        Requests at once. [1]
    """

    prompt: int = 2048
    output: int = 256
    concurrency: int = 16

    def __post_init__(self) -> None:
        """Refuse what no benchmark can send."""
        for name in ("prompt", "output", "concurrency"):
            value = getattr(self, name)
            if value < 1:
                raise InputError(f"{name} is {value}", hint="give a number of 1 or more")

    @property
    def requests(self) -> int:
        """Enough for ten rounds. [1]"""
        return 10 * self.concurrency


@dataclass(frozen=True, slots=True)
class Site:
    """What a command is written for.

    Attributes
    ----------
    room
        Bytes of a device.
    gpu, vendor
        Names of the device and of who makes it.
    gpus_per_node
        Devices of a node. [1]
    stored
        Format of the checkpoint.
    load, port
        Of the benchmark; where the server listens.
    """

    room: Room
    gpu: str
    vendor: str
    gpus_per_node: int
    stored: str
    load: Load = field(default_factory=Load)
    port: int = 8000

    def nodes(self, layout: Layout) -> int:
        """Nodes that a replica lies on. [1]"""
        return -(-int(layout.devices) // self.gpus_per_node)
