"""Tables of recorded requests: which columns each format has, and what they mean."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.cost.work import Array
from roofline.interop.traces.rows import Place, Rows, Texts, numbers, tokens


@dataclass(frozen=True, slots=True)
class Format:
    """A table of requests."""

    name: str
    title: str
    """Short name; where it is from."""
    columns: tuple[str, ...]
    """That it must have, as they are spelled."""
    convert: Callable[[Texts, Place], Rows]
    """Columns of text to rows."""
    optional: tuple[str, ...] = ()
    """That it may have."""
    failures: bool = False
    """Whether requests without an answer are recorded, with 0 tokens."""


_ZONE: Final = re.compile(r"(?:Z|[+-]00:?00)$")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?", re.ASCII)

_WHOLE: Final = len("2023-11-16 18:15:46")


def _clock(texts: Texts, column: str, place: Place) -> Array:
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
        row = next(row for row, text in enumerate(written) if not _is_time(text))
        raise place.error(
            row, f"{column} is {texts[column][row][:40]!r}, which is no time", "check the date"
        ) from None
    parts: Array = np.array([float(f"0{text[_WHOLE:]}") for text in written])
    return parts + whole.astype(np.int64)


def _is_time(text: str) -> bool:
    try:
        np.datetime64(text[:_WHOLE], "s")
    except ValueError:
        return False
    return True


def _azure(texts: Texts, place: Place) -> Rows:
    return Rows(
        seconds=_clock(texts, "TIMESTAMP", place),
        prompt=tokens(texts, "ContextTokens", place, least=0),
        output=tokens(texts, "GeneratedTokens", place, least=0),
    )


def _burstgpt(texts: Texts, place: Place) -> Rows:
    return Rows(
        seconds=numbers(texts, "Timestamp", place),
        prompt=tokens(texts, "Request tokens", place, least=0),
        output=tokens(texts, "Response tokens", place, least=0),
    )


def _plain(texts: Texts, place: Place) -> Rows:
    rows = Rows(
        seconds=numbers(texts, "arrival_s", place),
        prompt=tokens(texts, "prompt", place),
        output=tokens(texts, "output", place),
    )
    if "priority" not in texts:
        return rows
    return Rows(
        rows.seconds, rows.prompt, rows.output, priority=tokens(texts, "priority", place, least=0)
    )


FORMATS: Final = (
    Format(
        "azure",
        "Azure LLM inference trace (2023, 2024)",
        ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        _azure,
        failures=True,
    ),
    Format(
        "burstgpt",
        "BurstGPT (arXiv 2401.17644)",
        ("Timestamp", "Request tokens", "Response tokens"),
        _burstgpt,
        optional=("Session ID", "Elapsed time", "Model", "Total tokens", "Log Type"),
        failures=True,
    ),
    Format("csv", "plain table", ("arrival_s", "prompt", "output"), _plain, ("priority",)),
)
"""Tables, told apart by their columns."""
