"""Lines of JSON with a time, two lengths and the ids of prompt blocks, as Mooncake publishes them.

Traces of Qwen on Bailian are alike, but for seconds, blocks of 16 tokens, and ids of the chats
(github.com/alibaba-edu/qwen-bailian-usagetraces-anon, USENIX ATC 2025, arXiv 2506.02634).

It is the one format that says what prompts share, and so the one that traces are written in.
Source: Mooncake (arXiv 2407.00079), section 4: timestamps in milliseconds, blocks of 512 tokens, an
id for each block and what is before it; the last block may be a part of one.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from roofline.errors import DocumentError, InputError
from roofline.files import text_output
from roofline.interop.traces.lines import TraceLine
from roofline.interop.traces.tables import RequestRows, ValuePlaces
from roofline.serving.requests import MOST_TOKENS, Requests
from roofline.units import PREFIX

BLOCK: Final = 512
MILLISECONDS: Final = PREFIX["m"]
BAILIAN_BLOCK: Final = 16
"""Tokens of a block, of Mooncake's traces and of Bailian's. [token]"""
_KEYS: Final = ("timestamp", "input_length", "output_length")
_MOST_IDS: Final = 2**63


def convert(
    read: Sequence[TraceLine], source: str, block: int, unit: float = MILLISECONDS
) -> RequestRows:
    """Rows of lines, each one object, with blocks of so many tokens, else DocumentError.

    Times are in a unit of so many seconds. [s]
    """
    if (rows := _together([line.text for line in read], block, unit)) is not None:
        return rows
    place = ValuePlaces(source, read)
    entries = [_checked(line.text, row, place) for row, line in enumerate(read)]
    times, prompts, outputs = ([entry[key] for entry in entries] for key in _KEYS)
    return RequestRows(
        seconds=np.array(times, np.float64) * unit,
        prompt=np.array(prompts, np.int64),
        output=np.array(outputs, np.int64),
        blocks=tuple(_blocks(entry, row, place, block) for row, entry in enumerate(entries)),
    )


def _together(texts: list[str], block: int, unit: float) -> RequestRows | None:
    """Rows of lines that are read at once, where nothing is wrong with any; else None.

    A line with one brace that opens, at its start, and one that closes at its end is an object of
    its own where as many are read as there are lines.
    """
    joined = ",\n".join(["", *texts, ""])
    if not len(texts) == joined.count("{") == joined.count("\n{") == joined.count("},\n"):
        return None
    try:
        entries = json.loads(f"[{joined[2:-2]}]")
        times, *lengths = ([entry[key] for entry in entries] for key in _KEYS)
        ids = [entry.get("hash_ids", []) for entry in entries]
        numbers = (*lengths, chain.from_iterable(ids))
        if (
            not set(map(type, times)) <= {int, float}
            or not set(map(type, ids)) <= {list}
            or not all(set(map(type, each)) <= {int} for each in numbers)
        ):
            return None
        seconds = np.array(times, np.float64)
        prompt, output = (np.array(each, np.int64) for each in lengths)
        np.fromiter(chain.from_iterable(ids), np.int64)  # none is too large
    except (LookupError, OverflowError, RecursionError, TypeError, ValueError):
        return None
    most = np.fromiter(map(len, ids), np.int64, len(ids))
    right = (
        (seconds >= 0) & (seconds <= _MOST_IDS)
        & (prompt >= 1) & (prompt <= MOST_TOKENS) & (output >= 1) & (output <= MOST_TOKENS)
        & (most <= -(-prompt // block))
    )  # fmt: skip
    if len(entries) != len(texts) or not right.all():
        return None
    whole = (prompt // block).tolist()
    blocks = tuple(tuple(each[:count]) for each, count in zip(ids, whole, strict=True))
    return RequestRows(seconds=seconds * unit, prompt=prompt, output=output, blocks=blocks)


def _checked(text: str, row: int, place: ValuePlaces) -> dict[str, Any]:
    """Object of a line, or the first thing that is wrong with it."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError) as error:
        at = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise place.error(row, f"the line is not JSON{at}", "one object to a line") from None
    if not isinstance(entry, dict):
        raise place.error(row, "the line is not an object", f"write {', '.join(_KEYS)} in braces")
    for key in _KEYS:
        if key not in entry:
            raise place.error(row, f"{key} is missing", f"a request has {', '.join(_KEYS)}")
        value = entry[key]
        least = 0 if key == "timestamp" else 1
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _refused(place, row, key, value, "no number")
        if not least <= value <= (_MOST_IDS if key == "timestamp" else MOST_TOKENS):
            raise _refused(place, row, key, value, f"not {least} or more, or beyond all measure")
        if key != "timestamp" and value != int(value):
            raise _refused(place, row, key, value, "not a whole number")
    return entry


def _refused(place: ValuePlaces, row: int, key: str, value: object, said: str) -> DocumentError:
    hint = "correct the line, or remove it"
    return place.error(row, f"{key} is {str(value)[:40]}, which is {said}", hint)


def _blocks(entry: dict[str, Any], row: int, place: ValuePlaces, block: int) -> tuple[int, ...]:
    """Ids of whole blocks: the last one may be a part, which nobody can share."""
    ids = entry.get("hash_ids", [])
    if (
        not isinstance(ids, list)
        or not set(map(type, ids)) <= {int}
        or (ids and not -_MOST_IDS <= min(ids) <= max(ids) < _MOST_IDS)
    ):
        raise place.error(row, "hash_ids is not a list of whole numbers", "write [0, 1, 2]")
    prompt = int(entry["input_length"])
    if len(ids) > -(-prompt // block):
        raise place.error(
            row,
            f"{len(ids)} blocks of {block} tokens for a prompt of {prompt:,}",
            "check the length, or give the block size that the ids are of",
        )
    return tuple(ids[: prompt // block])


def write_trace(parts: Iterable[Requests], path: Path) -> int:
    """Write requests one to a line, and say how many.

    Args:
        parts: Requests in order, whole or in chunks.
        path: File; one that is there is replaced.

    Raises:
        InputError: A request waits for another's answer: such a line has nowhere to say so.
        MissingEnvironmentError: The file cannot be written.
    """
    count = 0
    with text_output(path) as file:
        for made in parts:
            if (made.after >= 0).any():
                raise InputError(
                    "sessions cannot be written as a trace",
                    hint="times of later turns depend on answers: write single requests",
                )
            file.writelines(_line(made, row) for row in range(len(made)))
            count += len(made)
    return count


def _line(made: Requests, row: int) -> str:
    first, last = made.prefix[row], made.prefix[row + 1]
    # Whole milliseconds as they are published; else as many digits as tell arrivals apart.
    milliseconds = float(made.arrival[row]) / MILLISECONDS
    entry = {
        "timestamp": int(milliseconds) if milliseconds.is_integer() else milliseconds,
        "input_length": int(made.prompt[row]),
        "output_length": int(made.output[row]),
        "hash_ids": made.hashes[first:last].tolist(),
    }
    return json.dumps(entry) + "\n"
