"""Steps that an engine's own log tells of, and what was read to find them."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from math import nan, sqrt
from typing import ClassVar, Final

from msgspec import Struct, structs

from roofline.errors import DocumentError
from roofline.records import replace
from roofline.serving.logged_step import LoggedStep

MOST_STEPS: Final = 2**15
"""Steps that are kept of a log of any length; of more, every second, fourth, … one. [1]"""
STEADY: Final = 0.2
"""Share by which the sequences may change while a step is averaged: beyond, the mean of both ends
says little of what ran. Assumed. [1]"""


class EngineLog(Struct, frozen=True):
    """Steps and counts of lines of one engine's logs."""

    source: str
    """Files, as they are shown."""
    title: str
    engine: str
    """Writer of the lines; its name in the catalog of engines."""
    steps: tuple[LoggedStep, ...]
    """In the order of the lines; of very many, evenly spread ones."""
    lines: int
    used: int
    cut: int
    unsteady: int
    """Lines in all; of the engine's statistics those that a step comes from, those that are cut
    off, and those during which too much changed, or nothing ran. [1]"""
    capacity: float
    """Tokens that the cache of one scheduler holds; NaN where the log does not say. [token]"""

    @property
    def account(self) -> str:
        """Sentence on what became of the lines."""
        others = self.lines - self.used - self.cut - self.unsteady
        return (
            f"{self.lines:,} lines: {self.used:,} of steps, {self.unsteady:,} of idle or changing "
            f"load, {self.cut:,} cut off, {others:,} of other things."
        )


def between(last: float, running: float) -> tuple[float, float] | None:
    """Mean of the sequences at two lines, and its log standard deviation; None where they differ.

    They change at any time in between, so that their mean is uniform between the two.

    Examples:
        >>> between(10, 10)
        (10.0, 0.0)
        >>> between(10, 20) is None
        True
    """
    if not (last and running) or abs(running - last) > STEADY * max(running, last):
        return None
    mean = (running + last) / 2.0
    return mean, abs(running - last) / sqrt(12.0) / mean


class StepStore:
    """Steps in little memory: where they are too many, every second one is dropped."""

    def __init__(self) -> None:
        self._width = len(LoggedStep.__struct_fields__)
        self._values = array("d")
        self._every = 1
        self._seen = 0

    def add(self, step: LoggedStep) -> None:
        """Keep a step, or leave it out where only some are kept."""
        if self._seen % self._every == 0:
            self._values.extend(structs.astuple(step))
        self._seen += 1
        if len(self._values) >= MOST_STEPS * self._width:
            kept = array("d")
            for step in list(self)[::2]:
                kept.extend(structs.astuple(step))
            self._values = kept
            self._every *= 2

    def __iter__(self) -> Iterator[LoggedStep]:
        for start in range(0, len(self._values), self._width):
            yield LoggedStep(*self._values[start : start + self._width])


class LogReader:
    """Reader of the lines of one engine; it remembers what the lines before said."""

    title: ClassVar[str] = ""
    engine: ClassVar[str] = ""
    """Writer of such lines; its name in the catalog of engines."""
    words: ClassVar[tuple[str, ...]] = ()
    """Each marks a line of statistics."""
    facts: ClassVar[tuple[str, ...]] = ()
    """Each marks a line that tells of the server; `learn_fact` reads it."""

    def __init__(self) -> None:
        self.used = self.cut = self.unsteady = 0
        self.capacity = nan
        self.drafts = self.staged = False
        """Whether lines tell of drafts, or of a pipeline."""

    def claims(self, text: str) -> bool:
        """Whether a line is one of statistics, whole or cut off."""
        return any(word in text for word in self.words)

    def learn_fact(self, text: str) -> None:
        """Take what a line tells of the server."""

    def read(self, text: str, line: int) -> Iterable[LoggedStep]:
        """Steps that are known with this line of statistics."""
        raise NotImplementedError  # each engine reads its own lines

    def finish(self) -> Iterable[LoggedStep]:
        """Steps that are known when the file ends."""
        return ()


@dataclass(slots=True)
class IterationWindow:
    """Iterations that are logged one by one, averaged over some of them.

    The time of an iteration and what it had in it may be told a line apart where an engine runs
    ahead of its device: means over many iterations do not feel that.
    """

    most: int
    """Iterations after which a mean is taken, and a new one begins. [1]"""
    steps: int = 0
    running: float = 0.0
    seconds: float = 0.0
    usage: float = 0.0
    tokens: float = 0.0
    prompt_tokens: float = 0.0
    chunks: int = 0
    prompts: float = 0.0
    first: float = 0.0
    """Counts, sums, and the sequences of the first one."""

    def steady(self, running: float) -> bool:
        """Whether so many sequences are about those that it began with."""
        return not self.steps or abs(running - self.first) <= STEADY * max(running, self.first)

    def add(self, one: LoggedStep) -> None:
        """Take one iteration in."""
        if not self.steps:
            self.first = one.running
        self.steps += 1
        self.running += one.running
        self.seconds += one.seconds
        self.usage += one.usage
        self.tokens += one.tokens
        self.prompt_tokens += one.prompt_tokens
        if one.prompt_tokens > 0:
            self.chunks += 1
            self.prompts += one.prompts

    def mean(self, line: int) -> LoggedStep:
        """Mean step, and an empty window after it."""
        count = self.steps
        found = LoggedStep(
            line,
            self.running / count,
            self.seconds / count,
            self.tokens / count,
            self.usage / count,
            self.prompt_tokens / count,
            self.prompt_tokens / self.chunks if self.chunks else 0.0,
            prompts=max(self.prompts / self.chunks, 1.0) if self.chunks else 1.0,
        )
        self.clear()
        return found

    def clear(self) -> None:
        """Forget what is in it."""
        empty = IterationWindow(self.most)
        for each in fields(self):
            setattr(self, each.name, getattr(empty, each.name))


def joined(logs: Iterable[EngineLog]) -> EngineLog:
    """Logs of one deployment as one.

    DocumentError where they are of several engines.
    """
    parts = list(logs)
    whole = parts[0]
    for each in parts[1:]:
        if each.title != whole.title:
            raise DocumentError(
                f"it is {each.title}, and {whole.source} is {whole.title}",
                hint="learn from the logs of one deployment at a time",
                where=each.source,
            )
        counts = {
            name: getattr(whole, name) + getattr(each, name)
            for name in ("lines", "used", "cut", "unsteady")
        }
        capacity = each.capacity if whole.capacity != whole.capacity else whole.capacity
        whole = replace(
            whole,
            source=f"{whole.source}, {each.source}",
            # A line number alone does not order the lines of several files.
            steps=(*whole.steps, *(replace(s, line=s.line + whole.lines) for s in each.steps)),
            capacity=capacity,
            **counts,
        )
    return whole
