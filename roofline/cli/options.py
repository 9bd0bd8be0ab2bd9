"""Options that several commands take, each with its help."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from roofline.cli import completing
from roofline.cli.render import Format


class Convention(StrEnum):
    """What is counted."""

    ENGINE = "engine"
    TEXTBOOK = "textbook"


class Attention(StrEnum):
    """How attention is run."""

    FLASH = "flash"
    NAIVE = "naive"


class Mask(StrEnum):
    """Pairs of query and key that count as work."""

    CAUSAL = "causal"
    SQUARE = "square"


class Mla(StrEnum):
    """Form of multi-head latent attention."""

    AUTO = "auto"
    EXPANDED = "expanded"
    ABSORBED = "absorbed"


class Outside(StrEnum):
    """Where an offloaded share is kept."""

    CPU = "cpu"
    NVME = "nvme"


class Objective(StrEnum):
    """What the best layout is best for."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    COST = "cost"


Model: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="Catalog name, hub id, config.json or its folder; - for stdin.",
        autocompletion=completing.models,
    ),
]
Gpu: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="GPU by name, or a YAML file.",
        show_default="h100-sxm",
        autocompletion=completing.gpus,
    ),
]
Node: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Node by name, or a YAML file, whose GPUs are taken; else the usual of --gpu.",
        autocompletion=completing.nodes,
    ),
]
Gpus: TypeAlias = Annotated[
    int | None, typer.Option(help="Devices in all; beyond those of a layout they are replicas.")
]
LayoutOf: TypeAlias = Annotated[
    str, typer.Option(help="Degrees together, like tp8-pp2, or auto to have the best one chosen.")
]
ObjectiveOf: TypeAlias = Annotated[
    Objective, typer.Option(help="What the best layout is best for.")
]
Tp: TypeAlias = Annotated[
    int | None, typer.Option(help="Tensor parallel: devices that share every layer.")
]
Pp: TypeAlias = Annotated[int | None, typer.Option(help="Pipeline parallel: stages of layers.")]
Ep: TypeAlias = Annotated[
    int | None, typer.Option(help="Expert parallel: groups that experts are spread over.")
]
Dp: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Attention data parallel: groups with sequences of their own, same experts."),
]
Cp: TypeAlias = Annotated[
    int | None, typer.Option(help="Context parallel: devices that share every context.")
]
Sp: TypeAlias = Annotated[
    bool, typer.Option("--sp", help="Sequence parallel: norms split by tokens over --tp.")
]
Stages: TypeAlias = Annotated[
    str, typer.Option(help="Layers of each pipeline stage, like 20,21,20; else evenly.")
]
Microbatches: TypeAlias = Annotated[
    int, typer.Option(help="Parts of a batch in a pipeline; 0 for one for each stage.")
]
RingAttention: TypeAlias = Annotated[
    bool, typer.Option("--ring-attention", help="Pass keys around under --cp, not gather them.")
]
Overlap: TypeAlias = Annotated[
    float, typer.Option(help="Share of the wires' time that is hidden behind compute, 0 to 1.")
]
OffloadWeights: TypeAlias = Annotated[
    str, typer.Option(help="Share of the layers kept on the host, 0 to 1; auto for what must be.")
]
OffloadKv: TypeAlias = Annotated[
    float, typer.Option(help="Share of the KV cache kept on the host, 0 to 1.")
]
OffloadTo: TypeAlias = Annotated[Outside, typer.Option(help="The host's memory, or its storage.")]
Prefetch: TypeAlias = Annotated[
    bool, typer.Option("--prefetch/--no-prefetch", help="Load the next layer while one computes.")
]
Batch: TypeAlias = Annotated[int, typer.Option(help="Sequences decoded together.")]
PrefillBatch: TypeAlias = Annotated[
    int, typer.Option(help="Prompts prefilled in one step; 0 for the whole batch.")
]
Prompt: TypeAlias = Annotated[int, typer.Option(help="Tokens of each prompt.")]
PrefixHit: TypeAlias = Annotated[
    float, typer.Option(help="Share of the prompt that is cached already, 0 to 1.")
]
Output: TypeAlias = Annotated[int, typer.Option(help="Tokens of each answer.")]
Workload: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Workload by name, or a YAML file; chat if nothing is said.",
        autocompletion=completing.workloads,
    ),
]
Trace: TypeAlias = Annotated[
    str, typer.Option(help="Recorded requests: Azure, BurstGPT, Mooncake, or a plain CSV.")
]
Cv: TypeAlias = Annotated[
    float | None, typer.Option(help="Spread of the gaps: 0 even, 1 Poisson, more in bursts.")
]
Prompts: TypeAlias = Annotated[
    str | None, typer.Option(help="Tokens of the prompts: 2048, or 1638..2048.")
]
Answers: TypeAlias = Annotated[
    str | None, typer.Option(help="Tokens of the answers: 256, or 205..256.")
]
Warmup: TypeAlias = Annotated[
    int | None, typer.Option(help="First requests that are left out of the figures.")
]
Promises: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Promises, p99 unless said: ttft=500ms,tpot_p90=50ms,e2e_mean=10s."),
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Same seed, same requests.")]
Weights: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Number format of all linear layers: bf16, fp8, int4-awq…; else as stored."),
]
Kv: TypeAlias = Annotated[
    str, typer.Option(help="Number format of the KV cache: bf16, fp8, int8…; else as computed.")
]
Engine: TypeAlias = Annotated[
    str,
    typer.Option(help="vllm, trtllm, sglang, ideal.", autocompletion=completing.engines),
]
ConventionOf: TypeAlias = Annotated[
    Convention, typer.Option(help="What an engine does, or published closed forms.")
]
KvCache: TypeAlias = Annotated[
    bool, typer.Option("--kv-cache/--no-kv-cache", help="Keep keys and values, or recompute.")
]
AttentionOf: TypeAlias = Annotated[
    Attention, typer.Option(help="Fused, or with scores in device memory.")
]
MaskOf: TypeAlias = Annotated[
    Mask, typer.Option(help="Pairs that count: what a causal kernel does, or the square.")
]
Calibrated: TypeAlias = Annotated[
    str,
    typer.Option(
        "--calibration",
        metavar="auto|none|NAME|FILE",
        help="Measured kernels to price with; auto: your own of the GPU, then those shipped; none: "
        "the datasheet's rates.",
        autocompletion=completing.calibrations,
    ),
]
Draft: TypeAlias = Annotated[
    str, typer.Option(help="What drafts: mtp, eagle, medusa, ngram, or a network like MODEL.")
]
Acceptance: TypeAlias = Annotated[
    str, typer.Option(help="How often a drafted token is accepted: 0.7; 0.73,0.71 by position.")
]
DraftLength: TypeAlias = Annotated[int, typer.Option(help="Tokens drafted in a row; 0 for 4.")]
MlaOf: TypeAlias = Annotated[
    Mla, typer.Option(help="Form of latent attention; auto takes the faster one.")
]
RoutingSkew: TypeAlias = Annotated[
    float, typer.Option(help="Power law of how tokens spread over experts; 0 is uniform.")
]
ExpertLoads: TypeAlias = Annotated[
    Path | None, typer.Option(help="YAML or JSON file with loads: [share of each expert].")
]
CudaGraphs: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--cuda-graphs/--no-cuda-graphs", help="Let the engine run steps in CUDA graphs, or not."
    ),
]
MemoryUtilization: TypeAlias = Annotated[
    float | None, typer.Option(help="Share of memory the engine takes; else its default.")
]
Price: TypeAlias = Annotated[
    float | None, typer.Option(help="Dollars for a device and hour; else the assumed one.")
]
Static: TypeAlias = Annotated[
    bool, typer.Option("--static", help="Show batches whose prompts all arrive at once.")
]
Report: TypeAlias = Annotated[Path | None, typer.Option(help="Write an HTML report here.")]
FormatOf: TypeAlias = Annotated[Format, typer.Option("--format", help="How to print.")]
