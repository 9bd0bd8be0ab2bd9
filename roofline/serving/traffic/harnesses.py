"""Harnesses: how benchmarks drive their clients, one file each in ``hwspecs/harnesses/``.

Lengths, the number of requests and who waits for whom decide TTFT by factors. A file says of every
figure where it is from; what was inferred from rows is called so.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Struct
from pydantic import Field

from roofline.content import shipped
from roofline.errors import DocumentError, UnknownNameError, did_you_mean
from roofline.hardware.figures import FigureKind, facts_of
from roofline.kept import kept
from roofline.schema import SourcedFigure, SourceEntry, Strict, check_sources, read, validate
from roofline.serving.traffic.files import SourcedText
from roofline.serving.traffic.lengths import ConstantLength, Lengths, Uniform
from roofline.serving.traffic.traffic import Statistic
from roofline.units import counted

_COUNT: Final = FigureKind("", "0", "1000000", whole=True)
_SHARE: Final = FigureKind("", "0", "10")
KINDS: Final[Mapping[str, FigureKind]] = {
    "ramp": FigureKind("s", "0 s", "1000000 s"),
    "rounds": FigureKind("", "0.01", "100000"),
    "warmup_rounds": FigureKind("", "0", "1000"),
    "shortest": _SHARE,
    "longest": _SHARE,
    "cv": FigureKind("", "0", "20"),
    **dict.fromkeys(("clients", "requests", "pool", "warmup_requests", "late_clients"), _COUNT),
}
"""Units and limits of the figures of a file."""


class HarnessUse(Struct, frozen=True):
    """Rows that a harness measured; a condition that is empty or 0 holds for all."""

    family: str = ""
    """Family of the rows, or format of the file of results."""
    engine: str = ""
    """Engine of the catalog, or the family of its releases."""
    network: str = ""
    """Network of the catalog."""
    multiple: int = 0
    """Their prompts are whole multiples of this. [token]"""
    before: str = ""
    """Their day is known and before this one."""

    def rank(self, row: "RowOrigin") -> tuple[int, ...]:
        """Closeness to a row, to be compared; empty where it is of other rows."""
        if self.family not in ("", row.family) or self.engine not in ("", *row.engines):
            return ()
        if self.network not in ("", row.network):
            return ()
        if self.multiple and row.prompt % self.multiple:
            return ()
        if self.before and not "" < row.date < self.before:
            return ()
        named = row.engines.index(self.engine) if self.engine else len(row.engines)
        conditions = (self.family, self.multiple, self.before, self.network)
        return *map(bool, conditions), -named


class RowOrigin(Struct, frozen=True):
    """Facts of a measured row that tell which harness drove it."""

    family: str
    engines: tuple[str, ...]
    """Engine of the catalog, and the family of its releases."""
    prompt: float
    """Nominal length. [token]"""
    date: str
    """Day, empty where it is not known."""
    network: str = ""
    """Network of the catalog; empty where it is not known."""


class Harness(Struct, frozen=True):
    """Clients of a benchmark: how many, with what requests, started how."""

    name: str
    title: str
    """Name on the command line, and the one of its makers."""
    clients: int = 0
    """Clients unless it is told; 0 where it must be. [1]"""
    rounds: float = 10.0
    """Requests of each client. [1]"""
    requests: int = 0
    """Requests of all clients, however many those are; 0 for ``rounds`` of each. [1]"""
    ramp_s: float = 0.0
    """Time over which clients start; 0 where all start at once. [s]"""
    shortest: float = 1.0
    longest: float = 1.0
    """Lengths of prompts and answers over the nominal one, uniform in between. [1]"""
    pool: int = 0
    """Different prompts, asked again in turn, so that later ones find their KV cache; 0 where
    every prompt is its own. [1]"""
    cv: float | None = None
    """Standard deviation of the gaps over their mean at a rate; None where it has no rates. [1]"""
    late_clients: int = 0
    """Clients beyond the sequences that the engine was built to hold. [1]"""
    warmup_rounds: float = 0.0
    warmup_requests: int = 0
    """Requests of each client, and of all, that are answered before those that count are sent.
    [1]"""
    statistic: Statistic = "mean"
    """Statistic that it reports of many requests."""
    used_by: tuple[HarnessUse, ...] = ()
    """Rows that it measured."""

    def sent(self, clients: float) -> float:
        """Requests that count, of a number of clients. [1]"""
        return self.requests or self.rounds * clients

    def around(self, nominal: float) -> Lengths:
        """Lengths around a nominal one. [token]

        Examples:
            >>> harness_named("inferencex").around(1000)
            Uniform(low=800, high=1000)
        """
        low, high = (max(round(nominal * share), 1) for share in (self.shortest, self.longest))
        return ConstantLength(low) if low == high else Uniform(low, high)

    @property
    def words(self) -> str:
        """Sentence about its clients."""
        sent = f"{self.requests:,} requests"
        sent = sent if self.requests else f"{self.rounds:g} requests of each client"
        span = f"lengths of {self.shortest:g} to {self.longest:g} of what is asked"
        span = "equal lengths" if self.shortest == self.longest else span
        pool = f", {counted(self.pool, 'different prompt')} in turn" if self.pool else ""
        warm = f"{self.warmup_rounds:g} of each client" if self.warmup_rounds else ""
        warm = warm or (f"{self.warmup_requests:,}" if self.warmup_requests else "none")
        return (
            f"Clients are those of {self.title}: {sent}, {span}{pool}; warm-ups that do not "
            f"count: {warm}."
        )


class _UseFile(Strict):
    family: str = ""
    engine: str = ""
    network: str = ""
    multiple: int = Field(default=0, ge=0)
    before: Annotated[str, Field(pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = ""


class _StatisticFile(SourcedText):
    value: Statistic


class HarnessFile(Strict):
    """One file of ``hwspecs/harnesses/``."""

    schema_version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
    title: Annotated[str, Field(min_length=1, max_length=200)]
    used_by: tuple[_UseFile, ...] = ()
    ramp: SourcedFigure | None = None
    clients: SourcedFigure | None = None
    rounds: SourcedFigure | None = None
    requests: SourcedFigure | None = None
    shortest: SourcedFigure
    longest: SourcedFigure
    pool: SourcedFigure
    cv: SourcedFigure | None = None
    late_clients: SourcedFigure | None = None
    warmup_rounds: SourcedFigure | None = None
    warmup_requests: SourcedFigure | None = None
    statistic: _StatisticFile
    sources: dict[str, SourceEntry] = Field(default_factory=dict)


def harness_names() -> list[str]:
    """Harnesses of the catalog, sorted."""
    return sorted(path.stem for path in (shipped("hwspecs") / "harnesses").glob("*.yaml"))


def harness_named(name: str) -> Harness:
    """Harness of the catalog; UnknownNameError where there is none of that name."""
    found = {each.name: each for each in harnesses()}
    plain = name.strip().lower()
    if plain not in found:
        hint = f"{did_you_mean(plain, found)}harnesses: {', '.join(found)}"
        raise UnknownNameError(f"no harness {name!r:.60}", hint=hint)
    return found[plain]


def harness_of(row: RowOrigin) -> Harness:
    """Harness that drove the clients of a row: the one whose use describes it most closely."""
    ranks = [(use.rank(row), each) for each in harnesses() for use in each.used_by]
    return max((found for found in ranks if found[0]), key=lambda found: found[0])[1]


@cache
def harnesses() -> tuple[Harness, ...]:
    """Harnesses of the catalog, by name; DocumentError where a file has a mistake."""
    paths = [shipped("hwspecs") / "harnesses" / f"{name}.yaml" for name in harness_names()]
    return kept(lambda: tuple(map(read_harness, paths)), "harnesses", paths)


def read_harness(path: Path) -> Harness:
    """Read a harness; DocumentError where the file has a mistake, or a figure no source."""
    document = read(path)
    file = validate(HarnessFile, document)
    check_sources(document)
    figures = {
        name: fact.value for name, fact in facts_of(document, file, file.sources, kinds=KINDS)
    }
    if (file.rounds is None) == (file.requests is None):
        raise DocumentError(
            f"{file.name} has {'no' if file.rounds is None else 'two'} numbers of requests",
            hint="give rounds of each client, or requests of all",
            where=document.where("name"),
        )
    if figures["shortest"] > figures["longest"]:
        raise DocumentError(
            f"shortest of {file.name} is longer than longest",
            hint="give the shorter one first",
            where=document.where("shortest", "value"),
        )
    figures["ramp_s"] = figures.pop("ramp", 0.0)
    told: dict[str, Any] = {
        name: int(value) if name in KINDS and KINDS[name].whole else value
        for name, value in figures.items()
    }
    uses = tuple(HarnessUse(**each.model_dump()) for each in file.used_by)
    return Harness(file.name, file.title, statistic=file.statistic.value, used_by=uses, **told)
