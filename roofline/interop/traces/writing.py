"""Requests written out as lines of JSON, in the shape that other simulators and clients read."""

import json
from collections.abc import Iterable
from pathlib import Path

from roofline.errors import InputError
from roofline.files import text_output
from roofline.interop.traces.mooncake import MILLISECONDS
from roofline.serving.requests import Requests


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
