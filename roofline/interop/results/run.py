"""A benchmark that was run: what it ran, and each figure with its unit and definition."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from roofline.interop.results.content import Content

Load = Literal["", "closed", "open", "burst", "offline", "batch", "prefill", "decode"]
"""Arrivals of requests: from clients that ask again when answered; at a rate; all at once to a
server; all at once to the engine itself; as one batch; a prompt alone; an answer alone. Empty where
the file does not say."""

UNITS: Final[Mapping[str, str]] = {
    "ttft": "s",
    "tpot": "s",
    "itl": "s",
    "latency": "s",
    "output_throughput": "token/s",
    "input_throughput": "token/s",
    "total_throughput": "token/s",
    "request_throughput": "1/s",
}
"""Unit of each metric.

``ttft``: from sending a request to its first token. ``tpot``: (latency - TTFT) / (tokens - 1) of
each request. ``itl``: the same of all requests together, so that long answers count more.
``latency``: from sending a request to its last token. Throughputs are of all devices together.
"""
STATISTIC: Final = re.compile(r"mean|std|min|max|p\d{1,2}(?:\.\d+)?")
"""Names of statistics; the median is ``p50``."""


class MeasuredFigure(Struct, frozen=True):
    """One measured figure."""

    metric: str
    statistic: str
    """One of `UNITS`; ``"mean"``, ``"p50"``, ``"p99"``, ``"std"``, ``"min"`` or ``"max"``."""
    value: float
    """Figure in `unit`."""
    field: str
    """Name in the file."""
    definition: str
    """Meaning of the figure for the tool, and its conversion where ours is another."""

    def __post_init__(self) -> None:
        """Refuse what a reader must not make: our own mistake."""
        assert self.metric in UNITS, self.metric
        assert STATISTIC.fullmatch(self.statistic), self.statistic

    @property
    def unit(self) -> str:
        """Base unit of the value."""
        return UNITS[self.metric]


class RunOptions(Struct, frozen=True):
    """Network, machine and load that options may say of a run; None or empty where not given."""

    model: str = ""
    gpu: str = ""
    """Names in the file."""
    gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    dp: int | None = None
    """Devices; tensor, pipeline, expert and attention data parallel degrees. [1]"""
    weights: str = ""
    kv: str = ""
    """Number formats as the file calls them."""
    engine: str = ""
    engine_version: str = ""
    """Engine that ran the kernels: ``"vllm"``, ``"sglang"``, ``"trtllm"``, ``"llama.cpp"``."""
    prompt: float | None = None
    output: float | None = None
    """Mean lengths. [token]"""
    concurrency: int | None = None
    """Clients, or sequences of a batch. [1]"""
    rate: float | None = None
    """Requests a second. [1/s]"""


class RunScenario(RunOptions, frozen=True):
    """Network, machine and load, as far as the file says; None or empty where it does not."""

    load: Load = ""
    """Arrivals of requests."""
    cv: float | None = None
    """Standard deviation of the gaps between requests over their mean. [1]"""
    requests: int | None = None
    """Requests that were answered. [1]"""
    spread: float | None = None
    """Half of the range of the answers' lengths over their mean. [1]"""
    depth: float = 0.0
    """Tokens in the cache before the prompt. [token]"""
    source: str = ""
    """Campaign of the rows, where a known one drives its clients in a known way."""
    beyond: str = ""
    """Part of it that no prediction knows: speculation, a split deployment; else empty."""


class MeasuredRun(Struct, frozen=True):
    """One run of a benchmark."""

    tool: str
    """Program that measured it."""
    where: str
    """``file``, ``file:line`` or ``file: path`` of the run."""
    scenario: RunScenario
    measurements: tuple[MeasuredFigure, ...]
    """Figures in the order of the file."""
    version: str = ""
    """Version of the tool, as far as the file says."""
    format: str = ""
    """Name of the `ResultFormat` that it was read as."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader should know."""

    def get(self, metric: str, statistic: str = "mean") -> float | None:
        """Value of a figure, None where it was not measured."""
        for each in self.measurements:
            if (each.metric, each.statistic) == (metric, statistic):
                return each.value
        return None


class ResultFormat(Struct, frozen=True):
    """A file format. Modules of the folder ``formats`` have one or several."""

    name: str
    title: str
    """Name of the format; the tool and what it writes."""
    recognises: Callable[[Content], bool]
    """True for the content of a file of this format."""
    read: Callable[[Content], Iterable[MeasuredRun]]
    """The runs of a file."""
    versions: str
    """Releases of the tool that write it so."""
