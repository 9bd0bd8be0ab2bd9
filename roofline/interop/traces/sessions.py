"""Sessions of a recording whose requests name the one that they go on from."""

import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from roofline.interop.traces.lines import Line
from roofline.interop.traces.tables import Place
from roofline.records import replace
from roofline.serving.requests import Integers, Requests, picked_rows

TPOT_S: Final = 0.025
"""Time of a token of an answer when the trace was recorded, which it does not say. Assumed. [s]"""
NOTE: Final = (
    "Requests of a chat wait for the answer that they go on from. What was between is the recorded "
    f"gap less {TPOT_S * 1000:g} ms for each token of that answer, assumed."
)
_KEYS: Final = ("chat_id", "parent_chat_id")
_MOST: Final = 2**63


def chat_ids(read: Sequence[Line], source: str) -> Integers:
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
                raise Place(source, read).error(
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
