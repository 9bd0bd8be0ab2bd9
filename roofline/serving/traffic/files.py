"""Workloads as files, like those of ``scenarios/workloads/``: schema and reader."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from roofline.errors import InputError
from roofline.hardware.figures import FigureKind, facts_of
from roofline.hardware.machine import Fact
from roofline.schema import (
    Document,
    SourcedFigure,
    SourceEntry,
    Strict,
    check_sources,
    read,
    validate,
)
from roofline.serving.requests import MOST_TOKENS
from roofline.serving.traffic import lengths as lasting
from roofline.serving.traffic import traffic as arriving
from roofline.serving.traffic.agents import MILLISECONDS
from roofline.serving.traffic.rate_curve import spelled_curve
from roofline.serving.traffic.traffic import (
    SharedPrefixes,
    Statistic,
    SubAgents,
    Tools,
    Traffic,
    Turns,
)

_LENGTH: Final = FigureKind("token", "1 token", "2000000000 token", whole=True)
_COUNT: Final = FigureKind("", "0", "1000000000", whole=True)
_TURNS: Final = FigureKind("turn", "1 turn", "10000 turn")
_STEPS: Final = FigureKind("step", "1 step", "10000 step")
_AGENTS: Final = FigureKind("agent", "1 agent", "10000 agent")
_TIME: Final = FigureKind("s", "0.001 s", "1000000 s")
_FIGURES: Final = ("tokens", "low", "high", "median", "mean", "most")
KINDS: Final[Mapping[str, FigureKind]] = {
    "mean": FigureKind("token", "1 token", "2000000000 token"),
    **dict.fromkeys(("median", "tokens", "low", "high", "most", "longest"), _LENGTH),
    "rate": FigureKind("request/s", "0.000001 request/s", "1000000000 request/s"),
    "cv": FigureKind("", "0.05", "20"),
    "skew": FigureKind("", "0", "10"),
    **dict.fromkeys(("think", "ramp"), FigureKind("s", "0 s", "1000000 s")),
    **dict.fromkeys(("concurrency", "requests", "samples", "warmup", "prefixes", "pool"), _COUNT),
    "share": FigureKind("", "0", "1"),
    **{
        f"turns.{path}.{name}": kind
        for path, kind in (
            ("number", _TURNS),
            ("pause", _TIME),
            ("tools.steps", _STEPS),
            ("tools.wait", _TIME),
            ("tools.branches.number", _AGENTS),
            ("tools.branches.steps", _STEPS),
        )
        for name in _FIGURES
    },
}
"""Unit and limits of a figure of a workload, by its path or the last key of it."""


class _Constant(Strict):
    kind: Literal["constant"]
    tokens: SourcedFigure


class _Uniform(Strict):
    kind: Literal["uniform"]
    low: SourcedFigure
    high: SourcedFigure


class _Lognormal(Strict):
    kind: Literal["lognormal"]
    median: SourcedFigure
    mean: SourcedFigure
    most: SourcedFigure | None = None


class SourcedText(Strict):
    """Source of a word or a list, which is no figure with a unit as `SourcedFigure` is."""

    source: str = Field(min_length=1)
    where: str = ""
    note: str = ""


class _Empirical(SourcedText):
    kind: Literal["empirical"]
    seen: Annotated[tuple[int, ...], Field(min_length=1)]
    weights: tuple[float, ...] = ()


class _Poisson(Strict):
    kind: Literal["poisson"]
    rate: SourcedFigure


class _Bursty(Strict):
    kind: Literal["bursty"]
    rate: SourcedFigure
    cv: SourcedFigure


class _Even(Strict):
    kind: Literal["even"]
    rate: SourcedFigure


class _Closed(Strict):
    kind: Literal["closed"]
    concurrency: SourcedFigure
    ramp: SourcedFigure | None = None


class _Recorded(SourcedText):
    kind: Literal["recorded"]
    times: Annotated[tuple[float, ...], Field(min_length=2)]


class _Curve(SourcedText):
    kind: Literal["curve"]
    rates: Annotated[str, Field(min_length=1)]


class _Classes(SourcedText):
    shares: Annotated[tuple[float, ...], Field(min_length=2)]


class _Shared(Strict):
    tokens: SourcedFigure
    prefixes: SourcedFigure
    skew: SourcedFigure | None = None


_Lengths: TypeAlias = Annotated[
    _Constant | _Uniform | _Lognormal | _Empirical, Field(discriminator="kind")
]
_Arrivals: TypeAlias = Annotated[
    _Poisson | _Bursty | _Even | _Recorded | _Closed | _Curve, Field(discriminator="kind")
]


class _Branches(Strict):
    share: SourcedFigure
    number: _Lengths
    steps: _Lengths
    task: _Lengths


class _Tools(Strict):
    steps: _Lengths
    result: _Lengths
    wait: _Lengths
    branches: _Branches | None = None


class _Turns(Strict):
    number: _Lengths
    think: SourcedFigure | None = None
    pause: _Lengths | None = None
    longest: SourcedFigure | None = None
    tools: _Tools | None = None


class _Objectives(SourcedText):
    value: str = Field(min_length=1)


class WorkloadFile(Strict):
    """One file of ``scenarios/workloads/``."""

    schema_version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
    title: Annotated[str, Field(min_length=1, max_length=200)]
    prompt: _Lengths
    output: _Lengths
    arrivals: _Arrivals
    requests: SourcedFigure | None = None
    shared: _Shared | None = None
    turns: _Turns | None = None
    pool: SourcedFigure | None = None
    samples: SourcedFigure | None = None
    priorities: _Classes | None = None
    warmup: SourcedFigure | None = None
    statistic: Statistic = "mean"
    slo: _Objectives | None = None
    sources: dict[str, SourceEntry] = Field(default_factory=dict)


def read_traffic(path: Path) -> tuple[Traffic, dict[str, Fact]]:
    """Workload of a file like those in ``scenarios/workloads/``, and its figures by dotted path.

    DocumentError where it cannot be read, or a figure has no source, no such unit, or cannot be.
    """
    document = read(path)
    file = validate(WorkloadFile, document)
    check_sources(document)
    facts = dict(facts_of(document, file, file.sources, kinds=KINDS))

    def value(name: str, default: float = 0.0) -> float:
        return facts[name].value if name in facts else default

    with document.at():
        traffic = Traffic(
            prompt=_lengths(document, file.prompt, facts, "prompt"),
            output=_lengths(document, file.output, facts, "output"),
            arrivals=_arrivals(document, file.arrivals, facts),
            requests=int(value("requests")),
            shared=SharedPrefixes(
                int(value("shared.tokens")), int(value("shared.prefixes")), value("shared.skew")
            )
            if file.shared
            else None,
            turns=_turns(document, file.turns, facts) if file.turns else None,
            pool=int(value("pool")),
            samples=int(value("samples", 1)),
            priorities=file.priorities.shares if file.priorities else (),
            warmup=int(value("warmup")),
            statistic=file.statistic,
            slo=file.slo.value if file.slo else "",
            name=file.name,
            title=file.title,
        )
    return traffic, facts


def _turns(document: Document, part: _Turns, facts: Mapping[str, Fact]) -> Turns:
    if (part.think is None) == (part.pause is None):
        had = "both think and pause" if part.think else "neither think nor pause"
        with document.at("turns"):
            raise InputError(
                f"sessions with {had}",
                hint="give think, the mean of an exponential time, or pause, a distribution",
            )

    def of(each: Strict, path: str, unit: float = 1.0) -> lasting.Lengths:
        return _lengths(document, each, facts, f"turns.{path}", unit)

    longest = int(facts["turns.longest"].value) if part.longest else 2**31
    think = facts["turns.think"].value if part.think else 0.0
    pause = of(part.pause, "pause", MILLISECONDS) if part.pause else None
    tools = branches = None
    if part.tools is not None:
        if (apart := part.tools.branches) is not None:
            branches = SubAgents(
                facts["turns.tools.branches.share"].value,
                of(apart.number, "tools.branches.number"),
                of(apart.steps, "tools.branches.steps"),
                of(apart.task, "tools.branches.task"),
            )
        tools = Tools(
            of(part.tools.steps, "tools.steps"),
            of(part.tools.result, "tools.result"),
            of(part.tools.wait, "tools.wait", MILLISECONDS),
            branches,
        )
    return Turns(of(part.number, "number"), think, longest, pause, tools)


def _lengths(
    document: Document, part: Strict, facts: Mapping[str, Fact], path: str, unit: float = 1.0
) -> lasting.Lengths:
    """Distribution of whole units."""

    def tokens(name: str) -> float:
        return facts[f"{path}.{name}"].value / unit

    with document.at(*path.split(".")):
        match part:
            case _Constant():
                return lasting.ConstantLength(round(tokens("tokens")))
            case _Uniform():
                return lasting.Uniform(round(tokens("low")), round(tokens("high")))
            case _Lognormal():
                most = round(tokens("most")) if part.most else MOST_TOKENS
                return lasting.Lognormal.of_mean(tokens("median"), tokens("mean"), most)
            case _:
                assert isinstance(part, _Empirical)
                return lasting.Empirical(part.seen, part.weights)


def _arrivals(document: Document, part: Strict, facts: Mapping[str, Fact]) -> arriving.Arrivals:
    def value(name: str) -> float:
        return facts[f"arrivals.{name}"].value

    match part:
        case _Poisson():
            return arriving.Poisson(value("rate"))
        case _Bursty():
            return arriving.Bursty(value("rate"), value("cv"))
        case _Even():
            return arriving.Even(value("rate"))
        case _Recorded(times=times):
            return arriving.RecordedArrivals(times)
        case _Curve(rates=rates):
            with document.at("arrivals", "rates"):
                return spelled_curve(rates)
        case _:
            ramp = facts["arrivals.ramp"].value if "arrivals.ramp" in facts else 0.0
            return arriving.Closed(int(value("concurrency")), ramp)
