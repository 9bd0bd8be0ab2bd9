"""Cases that a law is held to: some after each change, every one where all are asked for."""

import os
from typing import Final, TypeVar

ALL: Final = os.environ.get("ROOFLINE_CASES") == "all"
"""Whether every case runs, as in ``.ci/run --all``."""
Extent = TypeVar("Extent")


def cases(some: Extent, every: Extent) -> Extent:
    """Cases, or a number of them, after each change and where all are asked for."""
    return every if ALL else some


def examples(every: int) -> int:
    """Random cases of a law: two fifths after each change, ten at least; all where asked for."""
    return cases(min(max(2 * every // 5, 10), every), every)
