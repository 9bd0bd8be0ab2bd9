"""Number formats of llama.cpp: rows in blocks that share scales, by their sizes."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from roofline.model.precision.formats import Format

BLOCKS: Final[Mapping[str, tuple[int, int, int]]] = {
    "q1-0": (1, 128, 18),
    "q4-0": (4, 32, 18),
    "q4-1": (4, 32, 20),
    "q5-0": (5, 32, 22),
    "q5-1": (5, 32, 24),
    "q8-0": (8, 32, 34),
    "q8-1": (8, 32, 36),
    "q2-k": (2, 256, 84),
    "q3-k": (3, 256, 110),
    "q4-k": (4, 256, 144),
    "q5-k": (5, 256, 176),
    "q6-k": (6, 256, 210),
    "q8-k": (8, 256, 292),
    "iq1-s": (1, 256, 50),
    "iq1-m": (1, 256, 56),
    "iq2-xxs": (2, 256, 66),
    "iq2-xs": (2, 256, 74),
    "iq2-s": (2, 256, 82),
    "iq3-xxs": (3, 256, 98),
    "iq3-s": (3, 256, 110),
    "iq4-nl": (4, 32, 18),
    "iq4-xs": (4, 256, 136),
    "tq1-0": (1, 256, 54),
    "tq2-0": (2, 256, 66),
}
"""Bits of an element, elements of a block [1], and bytes of a block by format.

Source: the structures ``block_*`` of ggml, ``ggml/src/ggml-common.h`` of
https://github.com/ggml-org/llama.cpp.
"""

MULTIPLIED: Final = frozenset(BLOCKS) - {"q8-1", "q8-k", "iq1-m", "tq1-0", "tq2-0"}
"""Formats whose values are multiplied as integers of 8 bits, with inputs in blocks of ``q8-1``.

Source: ggml_cuda_should_use_mmq, ``ggml/src/ggml-cuda/mmq.cu`` at 027ef876: on NVIDIA devices with
int8 tensor cores always, since pull request 8075 (June 2024).
"""
INPUTS: Final = "q8-1"
"""Format that their inputs are converted to."""


@cache
def in_blocks(name: str) -> Format:
    """Weight-only format of llama.cpp, a name of `BLOCKS`.

    >>> in_blocks("q4-k").bits, in_blocks("q6-k").expression
    (4.5, '6 + 144/256 = 6.5625')
    """
    bits, values, size = BLOCKS[name]
    return Format(
        name,
        bits,
        shared=((8 * size - bits * values, values),),
        source=f"ggml: blocks of {values} in {size} bytes",
    )
