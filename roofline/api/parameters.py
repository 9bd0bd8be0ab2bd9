"""Parameters of the questions, each stated once: for Python and for the command line.

`roofline.api.question` says what a parameter is and makes functions of records,
`roofline.cli.options.takes` the options of a command. Nothing heavy is imported here, so that
help stays light.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from roofline.api.question import Question, network, parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from roofline.cost.moe import Routing
    from roofline.hardware.machine import Gpu, Node
    from roofline.model.architecture import Architecture
    from roofline.serving.traffic.lengths import Lengths
    from roofline.serving.traffic.traffic import Traffic

DEFAULT_MODEL: Final = "llama-3.1-8b"
DEFAULT_GPU: Final = "h100-sxm"
USUAL_YEARS: Final = 4.0
"""Years until a server is worth nothing, where nothing is said. Assumed. [a]"""

Convention = Literal["engine", "textbook"]
Attending = Literal["flash", "naive"]
Fusing = Literal["engine", "none", "all"]
Masking = Literal["causal", "square"]
Form = Literal["auto", "expanded", "absorbed"]
Outside = Literal["cpu", "nvme"]
Objective = Literal["latency", "throughput", "cost"]
Policy = Literal["static", "packed", "dynamic", "continuous", "chunked"]
Wires = Literal["network", "link"]
Router = Literal["turns", "load", "prefix"]


def _uniform() -> Routing:
    from roofline.cost.moe import UNIFORM

    return UNIFORM


class Subject(Question):
    """Network and device."""

    model: str | Architecture = network(default=DEFAULT_MODEL, kw_only=False)
    gpu: str | Gpu | None = parameter(
        "GPU by name, or a YAML file.",
        text="Catalog name, a YAML file, or a machine; None for that of the node or `DEFAULT_GPU`.",
        default=None,
        show_default=DEFAULT_GPU,
        completes="gpus",
        kw_only=False,
    )


class NodeOptions(Question):
    """Node around the devices."""

    node: str | Node | None = parameter(
        "Node by name, or a YAML file, whose GPUs are taken; else the usual of `gpu`.",
        text="Node by name, a YAML file, or a node, whose GPUs are taken; None for the usual one.",
        default=None,
        completes="nodes",
    )


class LayoutOptions(NodeOptions):
    """Number and layout of the devices."""

    gpus: int | None = parameter(
        "Devices in all; beyond those of a layout they are replicas.", default=None, unit="1"
    )
    layout: str = parameter(
        "Degrees together, like tp8-pp2, or auto to have the best one chosen.", default=""
    )


class DegreeOptions(LayoutOptions):
    """Degrees of parallelism."""

    tp: int | None = parameter(
        "Tensor parallel: devices that share every layer.", default=None, unit="1"
    )
    pp: int | None = parameter("Pipeline parallel: stages of layers.", default=None, unit="1")
    ep: int | None = parameter(
        "Expert parallel: groups that experts are spread over.", default=None, unit="1"
    )
    dp: int | None = parameter(
        "Attention data parallel: groups with sequences of their own, same experts.",
        default=None,
        unit="1",
    )
    cp: int | None = parameter(
        "Context parallel: devices that share every context.", default=None, unit="1"
    )


class PipelineOptions(DegreeOptions):
    """Degrees of parallelism, with stages of a pipeline."""

    stages: tuple[int, ...] = parameter(
        "Layers of each pipeline stage, like 20,21,20; else evenly.",
        default=(),
        unit="1",
        usual="",
        kind=str,
    )


class Sequences(Question):
    """Lengths of sequences."""

    prompt: int = parameter("Tokens of each prompt.", default=2048, unit="token")
    output: int = parameter("Tokens of each answer.", default=256, unit="token")


class Batch(Sequences):
    """A static batch."""

    batch: int = parameter("Sequences decoded together.", default=16, unit="1")
    prefill_batch: int = parameter(
        "Prompts prefilled in one step; 0 for the whole batch.", default=0, unit="1"
    )
    prefix_hit: float = parameter(
        "Share of the prompt that is cached already, 0 to 1.", default=0.0, unit="1"
    )


class Formats(Question):
    """Number formats."""

    weights: str | None = parameter(
        "Number format of all linear layers: bf16, fp8, int4-awq…; else as stored.", default=None
    )
    kv: str = parameter(
        "Number format of the KV cache: bf16, fp8, int8…; else as computed.", default="auto"
    )


class EngineSettings(Question):
    """Settings of an engine."""

    cuda_graphs: bool = parameter("Let the engine run steps in CUDA graphs, or not.", default=True)
    memory_utilization: float | None = parameter(
        "Share of memory the engine takes; else its default.", default=None, unit="1"
    )


class EngineOptions(EngineSettings):
    """Engine, and the kernels that price it."""

    engine: str = parameter(
        "vllm, trtllm, sglang, llamacpp, ideal.",
        text="Whose memory policy: ``vllm``, ``trtllm``, ``sglang``, ``llamacpp``, ``ideal``.",
        default="vllm",
        completes="engines",
    )
    calibration: str = parameter(
        "Measured kernels to price with; auto: your own of the GPU, then those shipped; none: the "
        "datasheet's rates.",
        default="auto",
        metavar="auto|none|NAME|FILE",
        completes="calibrations",
    )


class CalibrationOptions(Formats, EngineOptions):
    """Network as an engine loads it, and the kernels that price it."""


class ProfileOptions(Question):
    """Constants of the engine."""

    profile: str | Path = parameter(
        "Constants of the engine, as calibrate --from and --from-log learn them.",
        text="File of the engine's constants, as `roofline.api.learn_engine` writes it, in place "
        "of the shipped ones.",
        default="",
        usual=None,
        kind=Path | None,
    )


class ComputeOptions(Question):
    """Options of how layers are run."""

    mla: Form = parameter("Form of latent attention; auto takes the faster one.", default="auto")
    routing: Routing = parameter(
        "Power law, or measured loads, of how tokens spread over experts.", factory=_uniform
    )


class OverlapOptions(Question):
    """Options of communication."""

    overlap: float = parameter(
        "Share of interconnect time that is hidden behind compute, 0 to 1.", default=0.0, unit="1"
    )


class CommunicationOptions(OverlapOptions):
    """Options of communication of one layout."""

    two_batch: bool = parameter(
        "Two micro-batches: one computes as the other's tokens go to experts and back.",
        default=False,
    )


class PrefixCacheOptions(Question):
    """Room for prefixes that leave the GPU."""

    host_cache: str = parameter(
        "Host memory of a replica for prefixes that leave the GPU: 256GB.", default="0 B", unit="B"
    )
    nvme_cache: str = parameter(
        "Drives of a replica for prefixes that leave that memory: 4TB.", default="0 B", unit="B"
    )


class PriceOptions(Question):
    """Price of a device."""

    usd_per_hour: float | None = parameter(
        "Dollars for a device and hour; else the assumed one.",
        default=None,
        unit="$/h",
        called="price",
    )


class DeploymentOptions(CalibrationOptions, ComputeOptions, PriceOptions):
    """A deployment beside its devices and layout."""


class FacilityOptions(Question):
    """Building around the servers; electricity is told where anything of it is given."""

    pue: float = parameter(
        "Power of the building over that of its servers, like 1.25; with it energy is told.",
        default=1.0,
        unit="1",
    )
    usd_per_kwh: float | None = parameter(
        "Dollars for a kilowatt-hour of electricity.", default=None, unit="$/kWh"
    )
    carbon: str | float = parameter(
        "Grams of CO2e for a kilowatt-hour, or whose grid: fr, germany, us, world…",
        default="",
        unit="g/kWh",
        usual="",
        kind=str,
    )


class AttentionOptions(Question):
    """Options of attention, and of counting its work."""

    kv_cache: bool = parameter("Keep keys and values, or recompute.", default=True)
    attention: Attending = parameter("Fused, or with scores in device memory.", default="flash")
    fusion: Fusing = parameter(
        "Passes over activations as kernels of their own: as engines have them, for each operation "
        "of the code, or none that a neighbour could do.",
        default="engine",
    )
    mask: Masking = parameter(
        "Pairs that count: what a causal kernel does, or the square.", default="causal"
    )


class SamplingOptions(Question):
    """Options of how the next token is chosen."""

    temperature: float | None = parameter(
        "Temperature of the draw; 0 takes the likeliest token, as where none is given.",
        default=None,
        unit="1",
    )
    top_k: int = parameter("Draw among the K likeliest tokens; 0 for all.", default=0, unit="token")
    top_p: float = parameter(
        "Draw among the likeliest tokens of this probability together; 1 for all.",
        default=1.0,
        unit="1",
    )


class AdapterOptions(Question):
    """LoRA adapters that requests ask for."""

    adapters: int = parameter(
        "LoRA adapters that requests choose among, each one of them; 0 for none.",
        default=0,
        unit="1",
    )
    lora_rank: int = parameter("Rank of every adapter.", default=16, unit="1")
    lora_targets: str = parameter(
        "Linear layers with an adapter, like qkv,attn-out,gate-up,down; else all.", default=""
    )
    max_loras: int = parameter(
        "Adapters kept on the device, which a step has at most; others are loaded when asked for. "
        "0 for all.",
        default=0,
        unit="1",
    )
    adapter_skew: float = parameter(
        "Zipf's exponent of how requests choose; 0 where all adapters are alike.",
        default=0.0,
        unit="1",
    )


class MediaOptions(Question):
    """Pictures and recordings in each prompt, beside its text."""

    images: int = parameter(
        "Pictures in each prompt; their tokens come on top of the prompt's.", default=0, unit="1"
    )
    image_size: int = parameter("Pixels of a side of each picture.", default=1024, unit="1")
    recordings: int = parameter(
        "Recordings of sound in each prompt; their tokens come on top of the prompt's. An "
        "encoder-decoder always has one.",
        default=0,
        unit="1",
    )
    recording_s: float = parameter("Length of each recording.", default=30.0, unit="s")


class BranchingOptions(Question):
    """Options of several sequences for each prompt."""

    samples: int = parameter("Answers to each prompt.", default=1, unit="1")
    beams: int = parameter(
        "Beams searched together for the one answer to each prompt.", default=1, unit="1"
    )


class DiffusionOptions(Question):
    """Options of diffusion language models."""

    denoising_steps: int = parameter(
        "Steps of a diffusion language model for an answer, under traffic one of mean length; 0 "
        "decodes token by token.",
        default=0,
        unit="1",
    )
    block: int = parameter(
        "Tokens denoised together, with a cache; 0 for the whole answer.", default=0, unit="token"
    )


class CharacterOptions(Question):
    """Text of a token, by which networks with other tokenizers compare."""

    characters_per_token: float = parameter(
        "Characters of a token of the network's tokenizer, like 4.2: throughput and price in "
        "characters are told too.",
        default=0.0,
        unit="1",
    )


class RingOptions(Question):
    """Option of how context parallelism passes keys."""

    ring_attention: bool = parameter("Pass keys around under `cp`, not gather them.", default=False)


class ObjectiveOptions(Question):
    """Objective of the best layout."""

    objective: Objective = parameter("What the best layout is best for.", default="latency")


class RankingOptions(Question):
    """Criteria that candidates are compared by."""

    rank: Literal["steady", "static"] = parameter(
        "``steady``: a prompt on an idle server, and a batch that is kept full; ``static``: a "
        "batch whose prompts all arrive at once.",
        default="steady",
    )


class TrafficOptions(Question):
    """Traffic, and the SLO of it; None and empty for what the workload says."""

    workload: str | Traffic = parameter(
        "Workload by name, or a YAML file; chat if nothing is said.",
        default="",
        completes="workloads",
    )
    trace: str | Path = parameter(
        "Recorded requests: Azure, BurstGPT, Mooncake, Bailian, Splitwise, Vidur, ShareGPT, "
        "messages, or a plain CSV.",
        default="",
    )
    trace_sessions: bool = parameter(
        "Requests of a chat in the trace wait for its earlier answers (Bailian's).", default=False
    )
    drop_over_length: bool = parameter(
        "Leave out requests that are longer than the network's context.", default=False
    )
    clip: bool = parameter(
        "Cut requests to the network's context: the end of the prompt goes first.", default=False
    )
    rate: float | None = parameter("Requests a second.", default=None, unit="1/s")
    sessions_per_day: float | None = parameter(
        "Sessions a day, each with all of its requests, in place of a rate.",
        default=None,
        unit="1/day",
    )
    rate_curve: str | Path = parameter(
        "Rates over a day or week: 0h 5, 9h 40; 24 by hour; a trace, a workload.",
        text='Rates over a day or a week: ``"0h 5, 9h 40, 18h 20"``, 24 or 168 hourly ones, a '
        "trace, or a workload that has some.",
        default="",
        usual="",
        kind=str,
        unit="1/s",
    )
    cv: float | None = parameter(
        "Spread of the gaps: 0 even, 1 Poisson, more in bursts.", default=None, unit="1"
    )
    prompt: int | str | Lengths | None = parameter(
        "Tokens of the prompts: 2048, or 1638..2048.", default=None, unit="token"
    )
    output: int | str | Lengths | None = parameter(
        "Tokens of the answers: 256, or 205..256.", default=None, unit="token"
    )
    requests: int | None = parameter("Requests to send.", default=None, unit="1")
    warmup: int | None = parameter(
        "First requests that are left out of the figures.", default=None, unit="1"
    )
    samples: int | None = parameter(
        "Answers to each prompt, each a request; with prefix caching they share its pages.",
        default=None,
        unit="1",
    )
    beams: int = BranchingOptions.beams
    slo: str | None = parameter(
        "Objectives, p99 unless said: ttft=500ms,tpot_p90=50ms,e2e_mean=10s.", default=None
    )
    seed: int = parameter("Same seed, same requests.", default=0, unit="1")
    draft: str | Architecture = parameter(
        "What drafts: mtp, eagle, medusa, ngram, or a network like MODEL.", default=""
    )
    acceptance: str | float = parameter(
        "How often a drafted token is accepted: 0.7; 0.73,0.71 by position.", default="", unit="1"
    )
    acceptance_spread: float = parameter(
        "Standard deviation of the acceptance between requests; 0 for all alike.",
        default=0.0,
        unit="1",
    )
    draft_length: int | str | None = parameter(
        "Tokens drafted in a row; auto: the best for the running batch; else 4.",
        default=None,
        unit="token",
    )


class Analysis(
    Subject,
    PipelineOptions,
    Batch,
    MediaOptions,
    BranchingOptions,
    DiffusionOptions,
    CharacterOptions,
    DeploymentOptions,
    FacilityOptions,
    ProfileOptions,
    SamplingOptions,
    AdapterOptions,
    CommunicationOptions,
    AttentionOptions,
    RingOptions,
    ObjectiveOptions,
):
    """Parameters of `roofline.analyze`."""

    sequence_parallel: bool = parameter(
        "Sequence parallel: norms split by tokens over `tp`.", default=False, called="sp"
    )
    microbatches: int = parameter(
        "Parts of a batch in a pipeline; 0 for one for each stage.", default=0, unit="1"
    )
    offload_weights: float | str = parameter(
        "Share of the layers kept on the host, 0 to 1; auto for what must be.",
        default=0.0,
        unit="1",
        usual="0",
    )
    offload_kv: float = parameter(
        "Share of the KV cache kept on the host, 0 to 1.", default=0.0, unit="1"
    )
    offload_to: Outside = parameter("The host's memory, or its storage.", default="cpu")
    prefetch: bool = parameter("Load the next layer while one computes.", default=True)
    convention: Convention = parameter(
        "What an engine does, or published closed forms.", default="engine"
    )
    split_kv: bool = parameter(
        "Several blocks share the keys of a sequence in decode (FlashDecoding), or one has all.",
        default=True,
    )
    sram: str = parameter(
        "On-chip memory that attention to prompts has, with no cache behind it: 100KiB.",
        default="",
        usual="",
        unit="B",
    )


class LayoutComparison(
    Subject,
    NodeOptions,
    Batch,
    DeploymentOptions,
    SamplingOptions,
    AdapterOptions,
    OverlapOptions,
    AttentionOptions,
    RingOptions,
    ObjectiveOptions,
    RankingOptions,
):
    """Parameters of `roofline.layouts`."""

    gpus: int = parameter("Devices in all.", default=8, unit="1")
    batch: int = parameter("Sequences decoded together in one replica.", default=16, unit="1")


class Comparison(Batch, DeploymentOptions, SamplingOptions, AttentionOptions, RankingOptions):
    """Parameters of `roofline.compare`."""

    model: str | Architecture = network(
        "Base: catalog name, hub id, config.json or YAML; - for stdin.",
        text="The base: catalog name, hub id, a ``config.json``, YAML, or an architecture.",
        usual=DEFAULT_MODEL,
        kw_only=False,
    )
    changes: Sequence[str] = parameter(
        "A variant, one or more changes: gqa=8, mqa, mha, mla=512, cla=2, window=1024, "
        "local=1024/6, global-every=6, s4=64, h3=64, retnet, based=16/64, layers=, ffn=, heads=, "
        "d_model=, experts=8/2, sparsity=2:4, weights=, kv=, student=NETWORK, batch=, tp=, gpu=. "
        "Repeat it.",
        text='One text for each variant: ``"gqa=8"``, ``"window=1024,weights=int4"``; names are '
        "those of `roofline.model.changes.settings.CHANGES`.",
        usual=None,
        called="with_",
        kw_only=False,
    )
    gpu: str | Gpu | None = parameter(
        "GPU by name, or a YAML file.",
        default=None,
        show_default=DEFAULT_GPU,
        completes="gpus",
        kw_only=False,
    )
    training_tokens: float | str | None = parameter(
        "Show what training on so many tokens takes: 94e9.",
        default=None,
        unit="token",
        kind=str | None,
    )
    gpus: int | None = LayoutOptions.gpus
    tp: int | None = DegreeOptions.tp
    weights: str | None = parameter(
        "Number format of the base's weights; else the checkpoint's.", default=None
    )
    kv: str = parameter("Number format of the base's KV cache; else as computed.", default="auto")
    convention: Convention = Analysis.convention
    usd_per_hour: float | None = parameter(
        "Dollars for a device of the base and hour.", default=None, unit="$/h", called="price"
    )


class PoolComparison(
    Subject,
    NodeOptions,
    Batch,
    MediaOptions,
    DeploymentOptions,
    SamplingOptions,
    CommunicationOptions,
):
    """Parameters of `roofline.disaggregate`."""

    model: str | Architecture = network(usual=DEFAULT_MODEL, kw_only=False)
    prefill: str = parameter("Layout of a prefill instance: tp4, tp4-pp2, dp8-ep8.", usual="tp1")
    decode: str = parameter("Layout of a decode instance: tp8, dp16-ep16.", usual="tp1")
    decode_gpu: str | Gpu | None = parameter("GPU of the decode pool; else the same.", default=None)
    decode_node: str | Node | None = parameter(
        "Node of the decode pool; else the same.", default=None
    )
    encode: str = parameter(
        "Layout of an instance that encodes pictures and sound before the prefill: tp1.", default=""
    )
    encode_gpu: str | Gpu | None = parameter("GPU of that pool; else the same.", default=None)
    ffn: str = parameter(
        "Layout of a pool of its own for the feed-forward parts of a decode instance: dp16-ep16, "
        "tp8; `decode` is then one of attention, as many as are best unless it says dp.",
        default="",
    )
    ffn_gpu: str | Gpu | None = parameter(
        "GPU of the feed-forward pool; else that of `decode`.", default=None
    )
    ffn_over: Wires = parameter(
        "What activations go over to that pool: link where one node has both.", default="network"
    )
    microbatches: int = parameter(
        "Micro-batches between attention and feed-forward pool; 0 for the best of 1 to 4.",
        default=0,
        unit="1",
    )
    gpus: int | None = parameter(
        "Devices in all; else the fewest near the balance.", default=None, unit="1"
    )
    over: Wires = parameter(
        "What the cache goes over: link where one node has both pools.", default="network"
    )
    overlapped: bool = parameter("Send each layer's cache as the next computes.", default=False)
    prefill_batch: int = parameter(
        "Prompts in a prefill step; 0 for one in each group of `prefill`.", default=0, unit="1"
    )
    batch: int = parameter("Sequences of a decode instance.", default=64, unit="1")
    overlap: float = parameter(
        "Share of interconnect time in an instance that is hidden.", default=0.0, unit="1"
    )


class DraftComparison(Subject, LayoutOptions, Batch, DeploymentOptions, OverlapOptions):
    """Parameters of `roofline.speculate`."""

    model: str | Architecture = network(
        "The target: catalog name, hub id, config.json; - for stdin.",
        text="The target: catalog name, hub id, a ``config.json`` or its folder, or an "
        "architecture.",
        default=DEFAULT_MODEL,
        kw_only=False,
    )
    draft: str | Architecture = parameter(
        "What drafts: mtp, eagle, medusa, ngram, or a network like MODEL.", usual=""
    )
    acceptance: str | float = parameter(
        "How often a drafted token is accepted: 0.7; 0.73,0.71 by position; 0.6+0.1 with the next "
        "best.",
        text="Probability that the target accepts a drafted token when it has accepted those "
        'before: ``0.7``; ``"0.73,0.71,0.68"`` by position; ``"0.6+0.1,0.5+0.1"`` with those of '
        "the next best token.",
        unit="1",
        usual="",
    )
    acceptance_spread: float = parameter(
        "Standard deviation of the acceptance between requests; 0 for all alike.",
        default=0.0,
        unit="1",
    )
    length: int | str | None = parameter(
        "Tokens drafted in a row; auto: the best of each batch; else 4, or a tree.",
        default=None,
        unit="token",
    )
    tree: Sequence[int] = parameter(
        "Alternatives at each position, like 3,2,1, in place of a row.",
        default=(),
        unit="token",
        usual="",
        kind=str,
    )
    tokens: int = parameter("Size of the best tree, in place of a row.", default=0, unit="token")
    draft_weights: str | None = parameter(
        "Number format of a draft of its own; else as stored.", default=None
    )
    draft_tp: int | None = parameter(
        "Devices that share the draft; else as many as the target.", default=None, unit="1"
    )
    layout: str = parameter("Layout of the target: tp8, dp8-ep8; else `gpus` share it.", default="")


class Paging(Subject, LayoutOptions, Sequences, BranchingOptions, CalibrationOptions):
    """Parameters of `roofline.paging`."""

    page: int = parameter("Tokens of a page; 0 for the engine's.", default=0, unit="token")
    length_spread: float = parameter(
        "Share that lengths vary by to either side, for what is lost between contiguous caches.",
        default=0.0,
        unit="1",
    )
    reserved: int = parameter(
        "Tokens reserved without pages; 0 for the longest the network takes.",
        default=0,
        unit="token",
    )
    layout: str = parameter("tp8, dp8-ep8; else `gpus` share it.", default="")
    batch: int = parameter("Sequences that a step keeps activations for.", default=256, unit="1")


class ServeCommandQuestion(
    Subject, PipelineOptions, Sequences, Formats, EngineSettings, AdapterOptions
):
    """Parameters of `roofline.serve_command`."""

    target: str = parameter(
        "What to write: ``vllm``, ``sglang``, ``trtllm``, ``llamacpp``; or ``k8s``, "
        "``ray-serve``, ``dynamo`` and ``llm-d`` around an engine; ``auto`` for the engine that "
        "is fastest. By default `engine`, or ``vllm`` without one.",
        default="",
    )
    engine: Literal["vllm", "sglang", "trtllm", "llamacpp"] | None = parameter(
        "Engine of the command, or inside of k8s or dynamo.", default=None
    )
    layout: str = parameter("Degrees together, like tp8-pp2.", default="")
    prefill: str = parameter(
        "Layout of a pool of prefill beside, like tp2, for dynamo and llm-d.", default=""
    )
    prefill_replicas: int = parameter("Servers of that pool.", default=1, unit="1")
    max_sequences: int | None = parameter(
        "Sequences that run at once, of a replica.", default=None, unit="1"
    )
    max_context: int | None = parameter(
        "Longest sequence; else the network's, or what fits of it.", default=None, unit="token"
    )
    token_budget: int | None = parameter(
        "New tokens of a step, of a replica.", default=None, unit="token"
    )
    chunked_prefill: bool = parameter("Cut prompts to fill a step.", default=True)
    prefix_caching: bool = parameter("Keep equal prefixes once.", default=True)
    offload_weights: float = parameter(
        "Share of the layers kept on the host, 0 to 1.", default=0.0, unit="1"
    )
    draft: str = parameter(
        "What drafts tokens, if anything.",
        text="What drafts tokens, if anything: ``mtp``, ``eagle``, ``ngram``, ``model``.",
        default="",
        usual=None,
        kind=Literal["mtp", "eagle", "ngram", "model"] | None,
    )
    draft_tokens: int = parameter("Tokens drafted in a row.", default=3, unit="token")
    draft_model: str = parameter("Checkpoint of the draft, for eagle and model.", default="")
    concurrency: int = parameter("Requests at once in the benchmark.", default=16, unit="1")
    port: int = parameter("Where the server listens.", default=8000)


class Simulation(
    Subject,
    TrafficOptions,
    MediaOptions,
    DiffusionOptions,
    CharacterOptions,
    DegreeOptions,
    DeploymentOptions,
    ProfileOptions,
    FacilityOptions,
    SamplingOptions,
    AdapterOptions,
    CommunicationOptions,
    PrefixCacheOptions,
):
    """Parameters of `roofline.simulate`."""

    rate: float | None = parameter("Requests a second, in an open loop.", default=None, unit="1/s")
    concurrency: int | None = parameter(
        "Clients that ask again when answered, in place of a rate.", default=None, unit="1"
    )
    length_spread: float | None = parameter(
        "Share that lengths vary by to either side: 0.1; 0 for equal ones.", default=None, unit="1"
    )
    ramp_s: float | None = parameter(
        "Seconds over which clients start; 0 for all at once.",
        default=None,
        unit="s",
        called="ramp_up",
    )
    prompt_pool: int | None = parameter(
        "Different prompts that are sent in turn, so prefixes hit.", default=None, unit="1"
    )
    harness: str = parameter(
        "Benchmark whose clients, rounds, lengths and prompts are taken: inferencex, aiperf…; "
        "other options go first.",
        text="Benchmark of the catalog whose clients, rounds, spread of lengths and pool of "
        "prompts are taken where nothing else says them.",
        default="",
        completes="harnesses",
    )
    policy: Policy | None = parameter(
        "How steps are filled; else as the engine does.", default=None
    )
    first: Literal["decode", "prefill"] | None = parameter(
        "What fills a step first; else as the engine does.", default=None
    )
    max_sequences: int | None = parameter("Sequences that run at once.", default=None, unit="1")
    token_budget: int | None = parameter(
        "New tokens of a step; 0 for no limit.", default=None, unit="token"
    )
    timeout_s: float = parameter(
        "Seconds that a dynamic batch waits for others.", default=0.0, unit="s", called="timeout"
    )
    preemption: Literal["recompute", "swap"] = parameter(
        "What becomes of a sequence without memory.", default="recompute"
    )
    recv_interval: int = parameter(
        "Decode steps between looks at new requests, as SGLang counts them.", default=1, unit="1"
    )
    stream_interval: int = parameter(
        "Tokens of an answer that the server sends together.", default=1, unit="token"
    )
    dp_timeout_iters: int = parameter(
        "Steps that prompts wait until each copy of attention has one; 0: none.",
        text="Steps that prompts wait at most until each copy of attention has one, as in "
        "TensorRT-LLM's ``attention_dp_config``; 0 where they do not.",
        default=0,
        unit="1",
    )
    cold: bool = parameter("The server has just started: its first prompts wait.", default=False)
    admission: Literal["whole", "chunk"] = parameter(
        "Cache for which a prompt that is cut is admitted: all of it, or of its first chunk.",
        text="Room in the cache for which a prompt that is cut is admitted: ``whole``, or that of "
        "its first ``chunk``, as vLLM before ``scheduler_reserve_full_isl``.",
        default="whole",
    )
    cache_pool: str = parameter(
        "Pool on the network for prefixes of all replicas, stored as they are computed: 8TB.",
        default="0 B",
        unit="B",
    )
    beside: str = parameter(
        "Replicas on other GPUs behind the same router: l40s tp1 x3, b200-sxm.", default=""
    )
    router: Router = parameter(
        "Replica a request is sent to: in turn, by load, or by load and known prefix.",
        default="turns",
    )
    scaling: str = parameter(
        "Replicas that follow the hourly rates: start=nvme,look-ahead=2min,cool-down=5min,min=1,"
        "max=8,load=70%; start is a time, or where weights are.",
        text="How replicas follow the hourly rates of a curve or a trace, in words of "
        "``start=nvme,look-ahead=2min,cool-down=5min,min=1,max=8,load=70%``: see "
        "`roofline.plan`; each is meant to carry that share of its saturation.",
        default="",
    )
    workers: int = parameter(
        "Threads that serve replicas side by side; figures are the same.", default=1, unit="1"
    )
    contiguous: bool = parameter("A region for the longest request each, no pages.", default=False)
    prefix_caching: bool | None = parameter("Keep equal prefixes once.", default=None)
    cache_curve: bool = parameter(
        "Serve again with less and more room for prefixes: what a larger cache buys.", default=False
    )
    with_requests: bool = parameter("Whether there is a table of every request.", default=False)
    with_intervals: bool = parameter(
        "Say how sure it is: seven runs in all.",
        text="Whether figures have a central 80 %, and objectives a probability; it takes seven "
        "times as long. None have it at datasheet rates.",
        default=True,
        called="intervals",
    )
    progress: Callable[[int, int], None] | None = parameter(
        "Told how many requests are done, of how many.", default=None
    )


Placed = Analysis | DraftComparison | LayoutComparison | PoolComparison | Simulation
"""Questions of one network on devices of one kind at a price."""


class Planning(
    NodeOptions,
    TrafficOptions,
    MediaOptions,
    DiffusionOptions,
    EngineOptions,
    ProfileOptions,
    ComputeOptions,
    FacilityOptions,
    SamplingOptions,
    AdapterOptions,
    OverlapOptions,
    PrefixCacheOptions,
):
    """Parameters of `roofline.plan`."""

    model: str | Architecture = network(default=DEFAULT_MODEL, kw_only=False)
    gpu: str | Gpu | Sequence[str | Gpu] | None = parameter(
        "GPU by name, or a YAML file; several times to choose among them.",
        text="GPU by name, a YAML file, or a machine; several to choose among them.",
        default=None,
        show_default=DEFAULT_GPU,
        completes="gpus",
        kw_only=False,
    )
    gpus: int | None = parameter(
        "Most devices; else what `power` and `budget` hold, or 8.",
        default=None,
        unit="1",
        show_default="8",
    )
    power: str | float = parameter(
        "Power of the hall, like 2MW; without `rate` the plan fills it.",
        text='Power of the hall, a number [W] or ``"2MW"``; without a rate the plan fills it.',
        default="",
        unit="W",
        usual="",
        kind=str,
    )
    budget: float | None = parameter(
        "Dollars for all devices and hour; without `rate` the plan spends them.",
        default=None,
        unit="$/h",
        called="budget_per_hour",
    )
    job: float | str | None = parameter(
        "Tokens of a job, prompts and answers, that all wait at its start: 10G; with `within`.",
        default=None,
        unit="token",
        kind=str | None,
    )
    within: str | float = parameter(
        "Time in which the job has to be done: 24h; its GPUs are then given back.",
        text='Time in which the job has to be done, a number [s] or ``"24h"``; its GPUs are then '
        "given back.",
        default="",
        unit="s",
        usual="",
        kind=str,
    )
    own: float | None = parameter(
        "Dollars for a whole server, to compare owning with renting.", default=None, unit="$"
    )
    years: float = parameter(
        "Years until an owned server is worth nothing.", default=USUAL_YEARS, unit="a"
    )
    requests: int | None = parameter(
        "Requests that a plan is confirmed with.",
        text="Requests that a plan is confirmed with; None for 8000, or all of a trace.",
        default=None,
        unit="1",
    )
    headroom: float | str = parameter(
        "Share by which traffic may grow: 30%; or replicas to spare: n+1.",
        default=0.0,
        unit="1",
        usual="0%",
    )
    confidence: float | str = parameter(
        "Least probability that all limits hold; 0% for what is expected.",
        text="Least probability that all limits hold; 0 for what is expected. Rates of a "
        "datasheet have none.",
        default=0.9,
        unit="1",
        usual="90%",
    )
    weights: str | Sequence[str] | None = parameter(
        "Number format of the weights; several times to choose among them.", default=None
    )
    kv: str | Sequence[str] = parameter(
        "Number format of the KV cache; several times to choose among them.",
        default="auto",
        usual=None,
    )
    disaggregated: bool = parameter(
        "Let prefill and decode have GPUs of their own, or not.", default=True
    )
    length_pools: bool = parameter(
        "Try two pools as well, for short prompts and for long ones.", default=False
    )
    encoder_pools: bool = parameter(
        "Try GPUs of their own for pictures before the deployment, too.", default=False
    )
    ffn_pools: bool = parameter(
        "Try instances that decode with a pool of its own for their feed-forward parts, too.",
        default=False,
    )
    usd_per_hour: float | Sequence[float] | Mapping[str, float] | None = parameter(
        "Dollars for a device and hour; one, one for each `gpu`, or l40s=1.20 for some.",
        text="Dollars for a device and hour; one, one for each `gpu`, or those of some by name.",
        default=None,
        unit="$/h",
        called="price",
        kind=Sequence[str],
    )
    training_tokens: float | str | None = parameter(
        "Tokens it was trained on, like 15T, to compare with.",
        default=None,
        unit="token",
        kind=str | None,
    )
    scaling: str = parameter(
        "Replicas that follow a rate curve: start=nvme,look-ahead=2min,cool-down=5min,min=1,max=8; "
        "start is a time, or where weights are: nvme, network, page-cache.",
        text="How replicas follow a rate curve, in words of "
        "``start=nvme,look-ahead=2min,cool-down=5min,min=1,max=8``: ``start`` is a time, or the "
        "source of the weights, ``nvme``, ``network``, ``page-cache``; they are ordered as long "
        "before the load as they take to start, where nothing is said.",
        default="",
    )
    reserved_price: float | Sequence[float] | Mapping[str, float] | None = parameter(
        "Dollars for a device and hour that is reserved, beside `usd_per_hour` on demand.",
        default=None,
        unit="$/h",
        kind=Sequence[str],
    )
    what_if: Sequence[str] = parameter(
        "The plan again with changes, beside it: gpu=FILE.yaml, price=-30%, model=, weights=, kv=, "
        "engine=, rate=+50%, gpus=; several with commas. Repeat it.",
        text='Plans again with changes, beside it: ``"gpu=b200-sxm"``, ``"price=-30%"``, '
        '``"model=qwen3-8b,weights=fp8"``; also ``kv``, ``engine``, ``rate``, ``gpus``.',
        default=(),
        usual=None,
    )
    progress: Callable[[str], None] | None = parameter("Told what is being done.", default=None)


class MeasuredComparison(Question):
    """Parameters of `roofline.compare_measured`; None and empty for what the files say."""

    files: str | Path | Sequence[str | Path] = parameter(
        "What benchmarks wrote; .gz is unpacked.",
        text="What vLLM, SGLang, GuideLLM, AIPerf, GenAI-Perf, InferenceMAX, TensorRT-LLM, "
        "llama-bench, optimum-benchmark, inference-perf, llm-d, LLMPerf or LMBench wrote, or a "
        "table of your own.",
        kw_only=False,
    )
    format_: str = parameter(
        "Read the files as this; else told.", default="", called="format_as", metavar="FORMAT"
    )
    model: str = parameter("Network, where the files do not say.", default="", completes="models")
    gpu: str = parameter(
        "GPU, likewise.", text="GPU, where the files do not say.", default="", completes="gpus"
    )
    gpus: int | None = parameter("Devices in all.", default=None, unit="1", least=1)
    tp: int | None = parameter("Tensor parallel; else all.", default=None, unit="1", least=1)
    pp: int | None = parameter("Pipeline parallel.", default=None, unit="1", least=1)
    ep: int | None = parameter("Expert parallel.", default=None, unit="1", least=1)
    dp: int | None = parameter("Attention data parallel.", default=None, unit="1", least=1)
    weights: str = parameter("Number format of the weights.", default="")
    kv: str = parameter("Number format of the KV cache.", default="")
    engine: str = parameter("vllm, trtllm, sglang, llama.cpp…", default="", completes="engines")
    engine_version: str = parameter("Its release.", text="Release of the engine.", default="")
    prompt: float | None = parameter(
        "Mean tokens of prompts.", default=None, unit="token", least=1.0
    )
    output: float | None = parameter(
        "Mean tokens of answers.", default=None, unit="token", least=1.0
    )
    concurrency: int | None = parameter(
        "Clients, or sequences of a batch.", default=None, unit="1", least=1
    )
    rate: float | None = parameter(
        "Requests a second, in place of clients.", default=None, unit="1/s", least=0.001
    )
    every: bool = parameter("Every percentile, not one mean of each metric.", default=False)
    profile: str | Path = Simulation.profile
