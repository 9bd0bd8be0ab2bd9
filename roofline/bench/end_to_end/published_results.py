"""Well-known published results of serving, each a fact with its source, as measured rows.

A result of a whole server is spelled in the columns of `roofline.bench.end_to_end.cases`, so that
what predicts a file of rows predicts it too. A result of one pool, of prefill or of decode alone,
has no such row.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Struct
from pydantic import Field

from roofline import schema
from roofline.bench.end_to_end.cases import MODES
from roofline.content import shipped
from roofline.cost.layout import Layout
from roofline.errors import DocumentError

FOLDER: Final = "published"
POOLS: Final = ("prefill", "decode")
"""Loads of one pool of a disaggregated server."""
SERVER: Final = "server"
"""Load at the greatest rate that keeps the SLO."""
UNITS: Final[Mapping[str, str]] = {
    "ttft_s": "s",
    "tpot_s": "s",
    "latency_s": "s",
    "throughput_tok_s": "token/s",
}

_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
_Text = Annotated[str, Field(min_length=1, max_length=400)]
_Degree = Annotated[int, Field(ge=1, le=4096)]
_Count = Annotated[int, Field(ge=1, le=10_000_000)]
_Metric = Literal["ttft_s", "tpot_s", "latency_s", "throughput_tok_s"]
_Load = Literal[
    "bs1_prefill",
    "bs1_decode",
    "static_batch",
    "offline_max",
    "sharegpt_max",
    "steady_concurrency",
    "steady_rate",
    "prefill",
    "decode",
    "server",
]


class _RanFile(schema.Strict):
    """Network, devices, layout, engine and number formats."""

    model: _Text
    gpu: _Text
    gpus: _Degree
    tp: _Degree = 1
    pp: _Degree = 1
    ep: _Degree = 1
    attn_dp: _Degree = 1
    engine: _Text
    version: str = ""
    weights: str = ""
    experts: str = ""
    kv: str = ""


class _LoadFile(schema.Strict):
    """Requests, and limits of the server."""

    mode: _Load
    batch: _Count | None = None
    prompt: _Count | None = None
    output: _Count | None = None
    prefix_hit: Annotated[float, Field(ge=0, lt=1)] = 0.0
    requests: _Count | None = None
    rate: Annotated[float, Field(gt=0)] | None = None
    spread: Annotated[float, Field(ge=0, lt=1)] | None = None
    max_sequences: _Count | None = None
    step_tokens: _Count | None = None


class _ResultFile(schema.Strict):
    """One result; its source and place are those of all its figures."""

    name: _Name
    title: Annotated[str, Field(min_length=1, max_length=44)]
    ran: _RanFile
    load: _LoadFile
    measured: Annotated[dict[_Metric, str], Field(min_length=1)]
    counts: Literal["output", "input", "input+output"] = "output"
    per: Annotated[int, Field(ge=0)] = 0
    fitted: bool = False
    source: _Text
    where: _Text
    note: str = ""
    cause: str = ""
    unpredicted: str = ""


class _SourceFile(schema.Strict):
    """A public document."""

    title: _Text
    url: Annotated[str, Field(pattern=r"^https://[!-~]+$")]
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")]


class _PublishedFile(schema.Strict):
    """One file of ``hwspecs/published/``."""

    schema_version: Literal[1]
    name: _Name
    title: _Text
    results: Annotated[tuple[_ResultFile, ...], Field(min_length=1)]
    sources: dict[_Name, _SourceFile]


class PublishedSource(Struct, frozen=True):
    """A public document: its title, address and date, and the place of a figure in it."""

    title: str
    url: str
    date: str
    where: str


class PublishedResult(Struct, frozen=True):
    """A published result."""

    name: str
    title: str
    """Identifier, and a few words for tables."""
    ran: Mapping[str, Any]
    load: Mapping[str, Any]
    """Deployment and load, by the keys of the file; keys that are not stated are left out."""
    measured: Mapping[str, float]
    """Figures in base units, by metric. [s] or [token/s]"""
    counts: str
    """Tokens that a throughput counts: ``"output"``, ``"input"`` or both."""
    per: int
    """Devices that a throughput is of. [1]"""
    fitted: bool
    """Whether the engine's shipped constants were fitted to it."""
    source: PublishedSource
    """Where it is published."""
    note: str = ""
    """Assumptions, and what a reader should know."""
    cause: str = ""
    """Explanation of the source for a prediction outside its interval."""
    unpredicted: str = ""
    """Why it cannot be predicted; empty where it can be tried."""

    @property
    def pool(self) -> str:
        """``"prefill"`` or ``"decode"`` for a result of that pool alone; else empty."""
        mode = str(self.load["mode"])
        return mode if mode in POOLS else ""

    @property
    def layout(self) -> Layout:
        """Layout of the pool's instance: sequences of their own are beside tensor parallelism."""
        ran = self.ran
        return Layout(
            tp=ran.get("tp", 1), dp=ran.get("attn_dp", 1), ep=ran.get("ep", 1), pp=ran.get("pp", 1)
        )


def published_results(folder: Path | None = None) -> list[PublishedResult]:
    """Results of all files of a folder, or of those that are shipped, in the order of their names.

    Raises:
        DocumentError: A file cannot be read, has a figure without a source, or a name twice.
    """
    found: dict[str, PublishedResult] = {}
    for path in sorted((folder or shipped("hwspecs") / FOLDER).glob("*.yaml")):
        for each in read_published(path):
            if each.name in found:
                raise DocumentError(
                    f"the result {each.name!r} is there twice",
                    hint="give each result a name of its own",
                    where=str(path),
                )
            found[each.name] = each
    return list(found.values())


def read_published(path: Path) -> list[PublishedResult]:
    """Results of one YAML file.

    Raises:
        DocumentError: The file cannot be read, a result has no source, or a figure no such unit.
    """
    document = schema.read(path)
    file = schema.validate(_PublishedFile, document)
    schema.check_sources(document)
    return [_result(document, file, place) for place in range(len(file.results))]


def _result(document: schema.Document, file: _PublishedFile, place: int) -> PublishedResult:
    entry = file.results[place]
    source = file.sources[entry.source]
    measured: dict[str, float] = {}
    for metric in entry.measured:
        path = ("results", place, "measured", metric)
        measured[metric] = schema.quantity(document, UNITS[metric], *path)
        if measured[metric] <= 0:
            raise DocumentError(
                f"{metric} is {entry.measured[metric]!r:.40}",
                hint="give a figure above 0",
                where=document.where(*path),
            )
    ran = entry.ran.model_dump(exclude_unset=True)
    return PublishedResult(
        entry.name,
        entry.title,
        ran,
        entry.load.model_dump(exclude_unset=True),
        measured,
        entry.counts,
        entry.per or entry.ran.gpus,
        entry.fitted,
        PublishedSource(source.title, source.url, source.date, entry.where),
        entry.note,
        entry.cause,
        entry.unpredicted,
    )


_ALIKE: Final = (
    *("engine", "version", "gpu", "model", "tp", "pp", "ep", "attn_dp"),
    *("mode", "batch", "requests", "rate", "spread"),
)
_COLUMNS: Final[Mapping[str, str]] = {
    **dict(zip(_ALIKE, _ALIKE, strict=True)),
    "gpus": "n_gpus",
    "weights": "w_dtype",
    "experts": "moe_dtype",
    "kv": "kv_dtype",
    "prompt": "isl",
    "output": "osl",
    "max_sequences": "max_num_seqs",
    "step_tokens": "max_batched_tokens",
}
"""Columns of a measured row by the keys of a result, most of which are called alike."""


def row_of(result: PublishedResult) -> dict[str, Any]:
    """Result of a whole server as a measured row, its throughput that of all devices."""
    assert result.load["mode"] in MODES, result.name
    said = {**result.ran, **result.load}
    row = {column: said.get(key) for key, column in _COLUMNS.items()}
    devices = result.ran["gpus"] / result.per
    for metric, value in result.measured.items():
        row[metric] = value * (devices if metric == "throughput_tok_s" else 1.0)
    return row | {"family": FOLDER, "quality": "ok", "thr_counts": result.counts}
