"""A benchmark that was run: what it ran, and each figure with its unit and definition."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from roofline.interop.results.content import Content

Load = Literal["", "closed", "open", "burst", "offline", "batch", "prefill", "decode"]
"""How requests came: from clients that ask again when answered; at a rate; all at once to a server;
all at once to the engine itself; as one batch; a prompt alone; an answer alone. Empty where the
file does not say."""

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
"""How statistics are called; the median is ``p50``."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured figure."""

    metric: str
    statistic: str
    """One of `UNITS`; ``"mean"``, ``"p50"``, ``"p99"``, ``"std"``, ``"min"`` or ``"max"``."""
    value: float
    """In `unit`."""
    field: str
    """What the file calls it."""
    definition: str
    """What the tool means by that, and how it was converted where ours is another."""

    def __post_init__(self) -> None:
        """Refuse what a reader must not make: our own mistake."""
        assert self.metric in UNITS, self.metric
        assert STATISTIC.fullmatch(self.statistic), self.statistic

    @property
    def unit(self) -> str:
        """Base unit of the value."""
        return UNITS[self.metric]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What was run, as far as the file says; None or empty where it does not."""

    model: str = ""
    gpu: str = ""
    """As the file calls them."""
    gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    dp: int | None = None
    """Devices; tensor, pipeline, expert and attention data parallel degrees. [1]"""
    engine: str = ""
    engine_version: str = ""
    """Whose kernels: ``"vllm"``, ``"sglang"``, ``"trtllm"``, ``"llama.cpp"``."""
    weights: str = ""
    kv: str = ""
    """Number formats as the file calls them."""
    load: Load = ""
    """How requests came."""
    concurrency: int | None = None
    """Clients, or sequences of a batch. [1]"""
    rate: float | None = None
    cv: float | None = None
    """Requests a second, and the standard deviation of their gaps over the mean. [1/s]"""
    requests: int | None = None
    """How many were answered. [1]"""
    prompt: float | None = None
    output: float | None = None
    """Mean lengths. [token]"""
    spread: float | None = None
    """Half of the range of the answers' lengths over their mean. [1]"""
    depth: float = 0.0
    """Tokens in the cache before the prompt. [token]"""
    source: str = ""
    """Whose rows they are, where a known campaign drives its clients in a known way."""
    beyond: str = ""
    """What of it no prediction knows: speculation, a split deployment. Empty where nothing is."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of a benchmark."""

    tool: str
    format: str
    version: str
    """What measured it, what the file was read as, and which version wrote it, as far as it
    says."""
    where: str
    """``file``, ``file:line`` or ``file: path`` of the run."""
    scenario: Scenario
    """What was run."""
    measurements: tuple[Measurement, ...]
    """In the order of the file."""
    notes: tuple[str, ...] = ()
    """What a reader should know, one sentence each."""

    def get(self, metric: str, statistic: str = "mean") -> float | None:
        """Value of a figure, None where it was not measured."""
        for each in self.measurements:
            if (each.metric, each.statistic) == (metric, statistic):
                return each.value
        return None


@dataclass(frozen=True, slots=True)
class Format:
    """A file format. A module of the folder ``formats`` has one, called ``FORMAT``."""

    name: str
    title: str
    """As ``--as`` takes it; the tool and what it writes."""
    recognises: Callable[[Content], bool]
    """Whether a file is of this format, by its content."""
    read: Callable[[Content], Iterable[MeasuredRun]]
    """The runs of a file."""
