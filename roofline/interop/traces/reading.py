"""Traces of any known format, whole or in chunks, as requests from time 0 on."""

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.content import label
from roofline.errors import DocumentError, InputError
from roofline.interop.traces import chats, mooncake
from roofline.interop.traces.lines import TraceLine, cut_off, lines, located
from roofline.interop.traces.tables import (
    FORMATS,
    RequestRows,
    TraceFormat,
    ValuePlaces,
    numbers,
    plain_columns,
)
from roofline.records import replace
from roofline.schema.document import collector_paused
from roofline.serving.requests import (
    MOST_TOKENS,
    Integers,
    Requests,
    joined,
    part,
    picked_rows,
    requests,
)
from roofline.units import PREFIX

CHUNK: Final = 2**16
MOST_TEXT: Final = int(16 * PREFIX["Mi"])
"""Characters of the lines that are turned into requests together. [1]"""
MOST_TOGETHER: Final = 2**25
"""Requests, and ids of blocks, that are read at once: longer traces are streamed."""


class Trace(Struct, frozen=True):
    """A recording."""

    requests: Requests
    """Requests, from time 0 on."""
    format: str
    title: str
    """Name and title of its format."""
    source: str
    """The file, as it is shown."""
    failed: int
    """Requests without prompt or answer, which are left out. [1]"""
    timed: bool = True
    """True where it says when requests came; else all arrive at time 0."""
    estimated: bool = False
    """True where lengths are an estimate from texts."""
    chained: bool = False
    """True where requests of a chat wait for its earlier answers."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a reader should know."""
        out = [NOTE] if self.chained else []
        if self.estimated:
            out.append(
                f"Lengths are estimated from texts: {chats.PER_TOKEN:g} characters a token, and "
                "one for each character of Chinese, Japanese and Korean."
            )
        if self.failed:
            why = "" if self.estimated else "the service failed, and "
            out.append(f"{self.failed:,} recorded requests have no answer: {why}they are left out.")
        return tuple(out)


def read_trace(
    path: Path, *, most: int = 0, block: int | None = None, chained: bool = False
) -> Trace:
    """Read a trace; its format is told by its columns.

    Args:
        path: Azure, BurstGPT, Splitwise, Vidur or plain table (CSV), Mooncake's or Bailian's lines
            of JSON, or conversations as text, whose lengths are estimated; ``.gz`` is unpacked.
        most: Requests to read, the first ones; 0 for all. [1]
        block: Tokens of a hashed block, of lines of JSON; None for the format's own. [token]
        chained: Whether requests of a chat wait for its earlier answers.

    Raises:
        DocumentError: At the line that is at fault.
        InputError: Chats are asked for, and the format has none.
    """
    _check_block(block)
    if kind := chats.kind_of(path):
        if chained:
            raise _without_chats(label(path))
        return _of_texts(path, kind, most)
    reader = _Reader(path, block, chained=chained)
    if (plain := reader.numbers_alone(path, most)) is not None:
        return Trace(plain, reader.name, reader.title, reader.source, reader.failed)
    limit = most or MOST_TOGETHER
    parts, count, ids = [], 0, 0
    for made in reader.chunks(min(CHUNK, limit)):
        if count + len(made) > limit:
            if not most:
                raise InputError(
                    f"{reader.source} has more than {MOST_TOGETHER:,} requests",
                    hint="read the first ones (`requests=N`)",
                )
            made = part(made, 0, limit - count)
        ids += len(made.hashes)
        if ids > MOST_TOGETHER:
            raise InputError(
                f"{reader.source} has more than {MOST_TOGETHER:,} ids of blocks",
                hint=f"read the first {count:,} requests or fewer (`requests=N`)",
            )
        parts.append(made)
        count += len(made)
        if count == most:
            break
    if not count:
        raise DocumentError(
            f"{reader.source} has no request that was answered", hint="check that it is a trace"
        )
    made = joined(parts)
    if chained:
        made = in_sessions(made, np.concatenate(reader.chats)[: len(made)])
    return Trace(
        made,
        reader.name,
        reader.title,
        reader.source,
        reader.failed,
        timed=reader.timed,
        chained=chained,
    )


def _without_chats(source: str) -> InputError:
    return InputError(
        f"{source} does not say which requests are of one chat",
        hint="leave out `trace_sessions`: lines with chat_id and parent_chat_id do, as Bailian's",
    )


def _check_block(block: int | None) -> None:
    if block is not None and block < 1:
        raise InputError(f"blocks of {block} tokens", hint="give 1 token or more")


def _of_texts(path: Path, kind: str, most: int) -> Trace:
    """Requests of a file of texts, of which nobody recorded when they came."""
    failed, prompts, outputs = 0, [], []
    for prompt, output in chats.lengths(path, kind):
        if not prompt or not output:
            failed += 1
            continue
        prompts.append(prompt)
        outputs.append(output)
        if len(prompts) == most:
            break
        if len(prompts) > MOST_TOGETHER:
            raise InputError(
                f"{label(path)} has more than {MOST_TOGETHER:,} requests",
                hint="read the first ones (`requests`)",
            )
    if not prompts:
        raise chats.unanswered(path)
    made = requests(np.zeros(len(prompts)), prompts, outputs)
    title = chats.TITLES[kind]
    return Trace(made, kind, title, label(path), failed, timed=False, estimated=True)


def stream_trace(path: Path, *, chunk: int = CHUNK, block: int | None = None) -> Iterator[Requests]:
    """Read a trace as `read_trace`, in chunks of so many lines [1], whatever its length.

    DocumentError at the line that is at fault, when its chunk is read.
    """
    yield from _Reader(path, block).chunks(chunk)


class _Reader:
    """A file that is being read: its format, its first arrival and its last one."""

    def __init__(self, path: Path, block: int | None, *, chained: bool = False) -> None:
        _check_block(block)
        self.source = label(path)
        self.failed = 0
        self.chats: list[Integers] = []
        self._chained = chained
        self._unit = mooncake.MILLISECONDS
        self._lines = lines(path)
        self._first: float | None = None
        self._last = 0.0
        first = next(self._lines, None)
        if first is None:
            raise DocumentError(f"{self.source} is empty", hint="check that it is the right file")
        self._format: TraceFormat | None = None
        self._header: list[str] = []
        usual = mooncake.BLOCK
        if first.text.lstrip().startswith("{"):
            self.name, self.title = "mooncake", "lines of JSON as Mooncake's (arXiv 2407.00079)"
            if '"chat_id"' in first.text:
                self.name, self.title = "bailian", "trace of Qwen on Bailian (arXiv 2506.02634)"
                self._unit, usual = 1.0, mooncake.BAILIAN_BLOCK
            self._lines = chain([first], self._lines)
        else:
            self._header = [name.strip() for name in _cells(first, self.source)]
            self._format = _recognised(self._header, first, self.source)
            self.name, self.title = self._format.name, self._format.title
        self._block = usual if block is None else block
        if chained and self.name != "bailian":
            raise _without_chats(self.source)

    @property
    def timed(self) -> bool:
        """True where the format says when requests came."""
        return self._format is None or len(self._format.columns) == len(("time", "in", "out"))

    def numbers_alone(self, path: Path, most: int) -> Requests | None:
        """Requests of a table of numbers and nothing else, up to so many [1], read by column.

        None where there is anything else in the file: what is wrong is told line by line.
        """
        table = self._format
        if table is None or table.seconds is not numbers or self._chained or not self.timed:
            return None
        if path.suffix == ".gz" or not path.is_file():
            return None
        spelled = {name.lower(): name for name in self._header}
        wanted = [spelled.get(name.lower(), "") for name in (*table.columns, *table.optional)]
        wanted = [name for name in wanted if name]
        if len(wanted) < len(self._header):
            return None
        columns = plain_columns(path, self._header, wanted[1:], most or MOST_TOGETHER + 1)
        if columns is None:
            return None
        seconds, *counts = (columns.pop(name) for name in wanted)
        right = len(seconds) <= MOST_TOGETHER and seconds[0] >= 0 and np.isfinite(seconds[-1])
        right &= bool((seconds[1:] >= seconds[:-1]).all())
        answered = np.minimum(*counts[:2]) > 0
        least = [table.least, table.least, *(0 for _ in counts[2:])]
        for each, low in zip(counts, least, strict=True):
            right &= bool(each.min() >= low) and bool(each.max() <= MOST_TOKENS)
        failed = int((~answered).sum())
        # Requests to read are those that were answered, which may be further rows.
        if not right or not answered.any() or (failed and most):
            return None
        self.failed = failed
        seconds -= seconds[0]
        if self.failed:
            seconds, *counts = (each[answered] for each in (seconds, *counts))
        return requests(seconds, *counts[:2], priority=counts[2] if counts[2:] else 0)

    def chunks(self, size: int) -> Iterator[Requests]:
        while True:
            with collector_paused():  # which looks at every line again and again
                read = list(self._next(size))
                made = self._requests(read) if read else None
            if made is None:
                return
            if len(made):
                yield made

    def _next(self, size: int) -> Iterator[TraceLine]:
        """Next lines: so many, or fewer where they are so long that they fill much memory."""
        room = MOST_TEXT
        for line in islice(self._lines, size):
            yield line
            room -= len(line.text)
            if room < 0:
                return

    def _requests(self, read: list[TraceLine]) -> Requests:
        place = ValuePlaces(self.source, read)
        if self._format is None:
            rows = mooncake.convert(read, self.source, self._block, self._unit)
        else:
            rows = self._format.convert(self._columns(read, self._format), place)
        self._check_order(rows, place)
        if self._first is None:
            self._first = float(rows.seconds[0])
        answered = (rows.prompt > 0) & (rows.output > 0)
        if self._chained:
            self.chats.append(chat_ids(read, self.source)[answered])
        self.failed += int((~answered).sum())
        return requests(
            rows.seconds[answered] - self._first,
            rows.prompt[answered],
            rows.output[answered],
            priority=rows.priority[answered] if len(rows.priority) else 0,
            blocks=rows.blocks,
            block=self._block if any(rows.blocks) else 0,
        )

    def _check_order(self, rows: RequestRows, place: ValuePlaces) -> None:
        times = np.concatenate([[self._last if self._first is not None else 0.0], rows.seconds])
        early = np.diff(times) < 0
        if self._first is None:
            early[0] = False
        if early.any():
            raise place.error(
                int(np.argmax(early)),
                "the request comes before the one above it",
                "sort the lines by time",
            )
        self._last = float(times[-1])

    def _columns(self, read: list[TraceLine], table: TraceFormat) -> dict[str, list[str]]:
        """Texts of the columns that the format knows."""
        width = len(self._header)
        try:
            rows = list(csv.reader([line.text for line in read], strict=True))
        except csv.Error:
            rows = []
        if len(rows) != len(read):  # quotes go over line ends
            rows = [_cells(line, self.source) for line in read]
        for line, row in zip(read, rows, strict=True):
            if len(row) != width:
                if not line.whole and len(row) < width:
                    raise cut_off(self.source, line.number)
                message = f"the line has {len(row)} values, the header {width}"
                raise located(self.source, line.number, message, "check commas and quotes")
        places = {name.lower(): place for place, name in enumerate(self._header)}
        wanted = (*table.columns, *table.optional)
        return {
            name: [row[places[name.lower()]] for row in rows]
            for name in wanted
            if name.lower() in places
        }


def _cells(line: TraceLine, source: str) -> list[str]:
    try:
        return next(csv.reader([line.text], strict=True))
    except csv.Error:
        if not line.whole:
            raise cut_off(source, line.number) from None
        hint = "a value in quotes begins and ends in one line"
        raise located(source, line.number, "the line is not CSV", hint) from None


def _recognised(header: list[str], line: TraceLine, source: str) -> TraceFormat:
    names = {name.lower() for name in header}
    for table in FORMATS:
        if names >= {name.lower() for name in table.columns}:
            if len(names) != len(header):
                raise located(source, line.number, "a column is there twice", "remove one")
            return table
    known = "; ".join(f"{table.name}: {','.join(table.columns)}" for table in FORMATS)
    shown = ",".join(header)[:60]
    raise located(
        source,
        line.number,
        f"no trace has the columns {shown!r}",
        f"write a first line with those of one of {known}; or lines of JSON",
    )


TPOT_S: Final = 0.025
"""Time of a token of an answer when the trace was recorded, which it does not say. Assumed. [s]"""
NOTE: Final = (
    "Requests of a chat wait for the answer that they go on from. What was between is the recorded "
    f"gap less {TPOT_S * 1000:g} ms for each token of that answer, assumed."
)
_KEYS: Final = ("chat_id", "parent_chat_id")
_MOST: Final = 2**63


def chat_ids(read: Sequence[TraceLine], source: str) -> Integers:
    """Id of each line's chat, and of the one before, −1 for none; shape (lines, 2).

    DocumentError at the first line that has none. Lines are known to be objects.
    """
    out = np.empty((len(read), len(_KEYS)), np.int64)
    for row, line in enumerate(read):
        entry = json.loads(line.text)
        for column, key in enumerate(_KEYS):
            value = entry.get(key)
            if type(value) is not int or not -_MOST <= value < _MOST:
                said = "is missing" if value is None else "is no whole number"
                raise ValuePlaces(source, read).error(
                    row, f"{key} {said}", "give every line both, -1 for a chat that begins"
                )
            out[row, column] = value
    return out


def in_sessions(made: Requests, chats: Integers) -> Requests:
    """Requests that wait for the one that they go on from, those of a session together.

    One whose earlier request is not among them begins a session.

    Args:
        made: Requests in order of arrival.
        chats: Their `chat_ids`.
    """
    rows: dict[int, int] = {}
    before, root = np.full(len(made), -1), np.arange(len(made))
    for row, (chat, parent) in enumerate(chats.tolist()):
        if (earlier := rows.get(parent, -1) if parent >= 0 else -1) >= 0:
            before[row], root[row] = earlier, root[earlier]
        rows[chat] = row
    gap = made.arrival - made.arrival[before] - TPOT_S * made.output[before]
    chained = replace(
        made,
        arrival=made.arrival[root],
        after=before,
        think=np.where(before < 0, 0.0, np.maximum(gap, 0.0)),
    )
    return picked_rows(chained, np.argsort(root, kind="stable"))
