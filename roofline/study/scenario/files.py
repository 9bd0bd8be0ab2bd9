"""Shapes of scenario files, and the JSON Schema for editors that is made of them."""

from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, WithJsonSchema

from roofline.schema import Strict
from roofline.study.scenario.limits import FIGURES, Kind
from roofline.units import written_out

T = TypeVar("T")
Word = Annotated[str, Field(min_length=1, max_length=200)]
Label = Annotated[str, Field(pattern=r"^[^\x00-\x1f=+@-][^\x00-\x1f]{0,99}$")]
Some: TypeAlias = T | Annotated[tuple[T, ...], Field(min_length=1)]
"""One, or a list of them."""
Share = Annotated[float, Field(ge=0, le=1)]
Degree = Annotated[int, Field(ge=1, le=2**20)]
Quantity = Annotated[str | float, Field(description="a number, or one with its unit")]

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
SHORT: Final = r"^[0-9]{1,12}(\.[0-9]{1,9})?[kmgKMG]$"
"""Numbers that are written short."""
IDENTITY: Final = "urn:roofline:scenario:1"
_KINDS: Final[dict[str, Kind]] = {"BatchFile": "batch", "TrafficFile": "traffic"}


def _number(value: Any) -> Any:
    """Number of a text like ``32k``; what is none as it is, to be refused where it stands."""
    digits = written_out(value) if isinstance(value, str) else value
    return value if digits == value else float(digits)


Number: TypeAlias = Annotated[
    float,
    BeforeValidator(_number),
    WithJsonSchema({"type": ["number", "string"], "pattern": SHORT}),
]
"""A number, or one like ``32k`` (32,000) or ``32K`` (32,768)."""


class RangeFile(Strict):
    """Numbers from one to another: by a step, or so many points evenly or by equal factors."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["step"]}, {"required": ["points"]}]}
    )

    first: Number = Field(alias="from")
    to: Number
    step: Annotated[Number, Field(gt=0)] | None = None
    points: Annotated[int, Field(ge=2, le=100_000)] | None = None
    scale: Literal["linear", "log"] = "linear"


NumbersFile: TypeAlias = Number | Annotated[tuple[Number, ...], Field(min_length=1)] | RangeFile


class NetworkFile(Strict):
    """A network with changes, as ``roofline compare --with`` takes them."""

    model: Word
    changes: Word = Field(alias="with")
    name: Label | None = None


class EveryFile(Strict):
    """Layouts on so many GPUs: every possible one, or the one that is best for something."""

    gpus: Some[Degree]
    choose: Literal["latency", "throughput", "cost"] | None = None


class OffloadFile(Strict):
    """Shares that are kept on the host."""

    weights: Share | Literal["auto"] = 0
    kv: Share = 0
    to: Literal["cpu", "nvme"] = "cpu"
    prefetch: bool = True


class SpeculationFile(Strict):
    """Draft, and the probability that a drafted token is accepted."""

    draft: Word
    acceptance: Number | Word
    acceptance_spread: Number = 0
    length: Annotated[int, Field(ge=1, le=64)] = 4
    weights: Word | None = None


class DisaggregationFile(Strict):
    """Instances that prefill, beside those that decode in the scenario's layout."""

    prefill: Word
    gpu: Word | None = None
    over: Literal["network", "link"] = "network"
    overlapped: bool = False
    ffn: Word | None = None
    ffn_over: Literal["network", "link"] = "network"
    microbatches: Annotated[int, Field(ge=0, le=64)] = 0


class SampledFile(Strict):
    """Choice of the next token: see `roofline.cost.sampling.Sampling`."""

    temperature: Annotated[float, Field(ge=0)] | None = None
    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1
    beams: Annotated[int, Field(ge=1, le=128)] = 1


class AdaptedFile(Strict):
    """LoRA adapters that requests ask for: see `roofline.cost.adapters.Lora`."""

    adapters: Annotated[int, Field(ge=0)] = 0
    lora_rank: Annotated[int, Field(ge=1)] = 16
    lora_targets: Annotated[str, Field(max_length=200)] = ""
    max_loras: Annotated[int, Field(ge=0)] = 0
    adapter_skew: Annotated[float, Field(ge=0)] = 0


class TechniqueFile(SampledFile, AdaptedFile):
    """Options of how a batch is run."""

    name: Label | None = None
    prefix_hit: Annotated[float, Field(ge=0, lt=1)] = 0
    prefill_batch: Annotated[int, Field(ge=0)] = 0
    overlap: Share = 0
    two_batch: bool = False
    routing_skew: Annotated[float, Field(ge=0, le=10)] = 0
    redundant_experts: Annotated[int, Field(ge=0, le=4096)] = 0
    memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    cuda_graphs: bool = True
    kv_cache: bool = True
    samples: Annotated[int, Field(ge=1)] = 1
    offload: OffloadFile | None = None
    speculation: SpeculationFile | None = None
    disaggregation: DisaggregationFile | None = None


TechniqueOf: TypeAlias = Literal["plain"] | TechniqueFile


class PatchFile(Strict):
    """A variant of the whole scenario: figures of the GPU, or anything in place of the axes'."""

    name: Label
    memory: Quantity | None = None
    bandwidth: Quantity | None = None
    price: Quantity | None = None
    changes: Word | None = Field(default=None, alias="with")
    weights: Word | None = None
    kv: Word | None = None
    engine: Word | None = None
    layout: Word | None = None
    technique: TechniqueFile | None = None


class LengthsFile(Strict):
    """Traffic of prompts and answers: tokens, or a range like ``1638..2048``."""

    name: Label
    prompt: Annotated[int, Field(ge=1)] | Word
    output: Annotated[int, Field(ge=1)] | Word


class _Common(Strict):
    """Keys of scenarios of both kinds."""

    schema_version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
    title: Annotated[str, Field(min_length=1, max_length=200)]
    about: Annotated[str, Field(max_length=2000)] = ""
    models: Some[Word | NetworkFile]
    gpus: Some[Word] | None = None
    nodes: Some[Word] | None = None
    layouts: Some[Word] | EveryFile = "tp1"
    weights: Some[Word] = "auto"
    kv: Some[Word] = "auto"
    engines: Some[Word] = "vllm"
    patches: tuple[PatchFile, ...] = ()
    zip: tuple[Annotated[tuple[Word, ...], Field(min_length=2)], ...] = ()
    constraints: dict[str, Quantity] = Field(default_factory=dict)
    objectives: Some[Annotated[str, Field(pattern=r"^(min|max) [a-z_]+$")]] | None = None
    prices: dict[str, Quantity] = Field(default_factory=dict)
    keep: Annotated[str, Field(pattern=r"^(all|feasible|pareto|top-[1-9][0-9]{0,8})$")] = "pareto"
    each: Some[
        Literal[
            "models",
            "gpus",
            "nodes",
            "layouts",
            "weights",
            "kv",
            "engines",
            "techniques",
            "patches",
            "workloads",
            "policies",
        ]
    ] = ()
    calibration: Word = "auto"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class BatchFile(_Common):
    """Static batches: all prompts arrive together, are prefilled, then decode to the end."""

    kind: Literal["batch"]
    techniques: Some[TechniqueOf] = "plain"
    batch: NumbersFile = 16
    prompt: NumbersFile = 2048
    output: NumbersFile = 256
    rank: Literal["steady", "static"] = "steady"


class TrafficFile(_Common, SampledFile, AdaptedFile):
    """Requests that come at a rate, or from clients that ask again when answered."""

    kind: Literal["traffic"]
    workloads: Some[Word | LengthsFile] = "chat"
    policies: Some[Literal["continuous", "chunked"]] | None = None
    rate: NumbersFile | None = None
    concurrency: NumbersFile | None = None
    memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    cuda_graphs: bool = True


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a scenario.

    What it cannot say, as that a GPU is in the catalog, is left to the reader: every scenario that
    is read fits the schema.
    """
    file: TypeAdapter[BatchFile | TrafficFile] = TypeAdapter(
        Annotated[BatchFile | TrafficFile, Field(discriminator="kind")]
    )
    out = file.json_schema()
    for name, kind in _KINDS.items():
        properties = out["$defs"][name]["properties"]
        columns = sorted(FIGURES[kind])
        properties["constraints"]["propertyNames"] = {"enum": [*columns, "memory"]}
        _objectives(properties["objectives"], columns)
    return {"$schema": DRAFT, "$id": IDENTITY, "title": "Scenario of roofline sweep", **out}


def _objectives(part: dict[str, Any], columns: list[str]) -> None:
    """Say which objectives there are, wherever the shape has its pattern."""
    every = [f"{way} {column}" for way in ("min", "max") for column in columns]
    for branch in part["anyOf"]:
        text = branch.get("items", branch)
        if text.pop("pattern", None):
            text["enum"] = every
