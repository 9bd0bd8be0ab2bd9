"""Tables of recorded requests: formats by their columns, which become rows before requests."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.errors import DocumentError
from roofline.interop.traces.lines import TraceLine, cut_off, located
from roofline.records import replace
from roofline.serving.requests import MOST_TOKENS
from roofline.units import PREFIX

Ints = NDArray[np.int64]
Texts = Mapping[str, Sequence[str]]
AT_ONCE: Final = int(4 * PREFIX["Mi"])
"""Bytes of a table of numbers that are read at once. [B]"""
_SHOWN: Final = 40
_ZONE: Final = re.compile(r"(?:Z|[+-]00:?00)$")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?", re.ASCII)
_WHOLE: Final = len("2023-11-16 18:15:46")


class RequestRows(Struct, frozen=True):
    """Requests of some lines."""

    seconds: Array
    """Arrivals, from any origin. [s]"""
    prompt: Ints
    output: Ints
    """Tokens; a length of 0 where the service failed. [token]"""
    blocks: tuple[tuple[int, ...], ...] = ()
    """Ids of the whole blocks of each prompt; nothing where the format has none."""
    priority: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Priorities as in `Requests`; empty where the format has none."""


class ValuePlaces:
    """Places of the values of a chunk in their file."""

    def __init__(self, source: str, read: Sequence[TraceLine]) -> None:
        self.source = source
        self._read = read

    def error(self, row: int, message: str, hint: str) -> DocumentError:
        """Error at the line of a row; one that is cut off says so."""
        line = self._read[row]
        if not line.whole:
            return cut_off(self.source, line.number)
        return located(self.source, line.number, message, hint)


def numbers(texts: Texts, column: str, place: ValuePlaces) -> Array:
    """Finite numbers of a column that are not negative; DocumentError at the first other one."""
    column_texts = texts[column]
    try:
        made: Array = np.array(column_texts, dtype=np.float64)
    except ValueError:
        row = next(row for row, text in enumerate(column_texts) if not _made(text, "float64"))
        raise place.error(
            row,
            f"{column} is {column_texts[row][:_SHOWN]!r}, which is no number",
            "write a number, with a point where it has decimals",
        ) from None
    _refuse(~np.isfinite(made), column, column_texts, place, "not finite")
    _refuse(made < 0, column, column_texts, place, "negative")
    return made


def tokens(texts: Texts, column: str, place: ValuePlaces, *, least: int) -> Ints:
    """Whole numbers of tokens of a column; DocumentError at the first line that has none."""
    made = numbers(texts, column, place)
    _refuse(made != np.floor(made), column, texts[column], place, "not a whole number")
    _refuse(made < least, column, texts[column], place, f"less than {least}")
    _refuse(made > MOST_TOKENS, column, texts[column], place, f"more than {MOST_TOKENS:,}")
    return made.astype(np.int64)


def _made(text: str, kind: str) -> bool:
    """True for a text that numpy reads as a value of a kind."""
    try:
        np.array([text], dtype=kind)
    except ValueError:
        return False
    return True


def _refuse(
    wrong: NDArray[np.bool_], column: str, texts: Sequence[str], place: ValuePlaces, said: str
) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise place.error(
            row,
            f"{column} is {texts[row][:_SHOWN]!r}, which is {said}",
            "correct the line, or remove it",
        )


def plain_columns(
    path: Path, names: Sequence[str], whole: Sequence[str], most: int
) -> dict[str, NDArray[Any]] | None:
    """Columns of a table that has numbers and nothing else; None where anything else is in it.

    Args:
        path: File with a header.
        names: Columns, all of them.
        whole: Those of integers.
        most: Rows to read, the first ones; a few more may have to be right. [1]
    """
    from pyarrow import ArrowInvalid, csv, float64, int64  # which takes a while to load

    kinds = {name: int64() if name in whole else float64() for name in names}
    reading = csv.ReadOptions(
        column_names=list(names), skip_rows=1, use_threads=False, block_size=AT_ONCE
    )
    parsing = csv.ParseOptions(ignore_empty_lines=False)
    converting = csv.ConvertOptions(column_types=kinds)
    # A value takes a character and one after it: room for all, of which only what is filled counts.
    room = path.stat().st_size // (2 * len(names)) + 1
    made: dict[str, NDArray[Any]] = {
        name: np.empty(room, np.int64 if name in whole else np.float64) for name in names
    }
    rows = 0
    try:
        with csv.open_csv(path, reading, parsing, converting) as table:
            for batch in table:
                if any(column.null_count for column in batch.columns):
                    return None
                for name, column in zip(names, batch.columns, strict=True):
                    made[name][rows : rows + len(batch)] = column.to_numpy()
                rows += len(batch)
                if rows >= most:
                    break
    except (ArrowInvalid, OSError):
        return None
    return {name: column[: min(rows, most)] for name, column in made.items()} if rows else None


class TraceFormat(Struct, frozen=True):
    """A table of requests."""

    name: str
    title: str
    """Short name; where it is from."""
    columns: tuple[str, ...]
    """Columns of arrival, prompt and answer, as they are spelled; without the first where nobody
    recorded when requests came."""
    seconds: Callable[[Texts, str, ValuePlaces], Array]
    """Reads arrivals. [s]"""
    least: int = 0
    """Least tokens of a length: 0 where requests without an answer are recorded. [token]"""
    optional: tuple[str, ...] = ()
    """Columns that it may have."""

    def convert(self, texts: Texts, place: ValuePlaces) -> RequestRows:
        """Rows from columns of text."""
        *time, prompt, output = self.columns
        rows = RequestRows(
            seconds=self.seconds(texts, time[0], place) if time else np.zeros(len(texts[prompt])),
            prompt=tokens(texts, prompt, place, least=self.least),
            output=tokens(texts, output, place, least=self.least),
        )
        if "priority" not in texts:
            return rows
        return replace(rows, priority=tokens(texts, "priority", place, least=0))


def _clock(texts: Texts, column: str, place: ValuePlaces) -> Array:
    """Seconds since 1970 of times of day in UTC. [s]"""
    written = [_ZONE.sub("", text.strip()) for text in texts[column]]
    for row, text in enumerate(written):
        if not _TIME.fullmatch(text):
            raise place.error(
                row,
                f"{column} is {texts[column][row][:40]!r}, which is no time",
                "write it like 2023-11-16 18:15:46.680590, in UTC",
            )
    # Whole seconds and the rest apart: nanoseconds in 64 bits end in 2262.
    try:
        whole = np.array([text[:_WHOLE] for text in written], dtype="datetime64[s]")
    except ValueError:
        fits = [_made(text[:_WHOLE], "datetime64[s]") for text in written]
        row = fits.index(False)
        raise place.error(
            row, f"{column} is {texts[column][row][:40]!r}, which is no time", "check the date"
        ) from None
    parts: Array = np.array([float(f"0{text[_WHOLE:]}") for text in written])
    return parts + whole.astype(np.int64)


FORMATS: Final = (
    TraceFormat(
        "azure",
        "Azure LLM inference trace (2023, 2024)",
        ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        _clock,
    ),
    TraceFormat(
        "burstgpt",
        "BurstGPT (arXiv 2401.17644)",
        ("Timestamp", "Request tokens", "Response tokens"),
        numbers,
    ),
    TraceFormat(
        "splitwise",
        "trace of Splitwise's simulator (arXiv 2311.18677)",
        ("arrival_timestamp", "prompt_size", "token_size"),
        numbers,
    ),
    TraceFormat(
        "vidur",
        "trace of Vidur (arXiv 2405.05465)",
        ("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
        numbers,
    ),
    TraceFormat(
        "vidur-lengths",
        "lengths of Vidur, without times (arXiv 2405.05465)",
        ("num_prefill_tokens", "num_decode_tokens"),
        numbers,
    ),
    TraceFormat("csv", "plain table", ("arrival_s", "prompt", "output"), numbers, 1, ("priority",)),
)
"""Tables, told apart by their columns."""
