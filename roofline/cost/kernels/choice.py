"""Calibrated time of the choice of the best few entries of each query, from scores in memory.

    t = launch + [longest^q + (rows of an SM · row / abreast)^q]^(1/q) + rows without a choice

A block of threads chooses for a query (SGLang, ``topk_v1.cuh`` and ``fast_topk``): it counts its
scores by their highest bits, reads them again to keep those above a bound, and refines those at the
bound, as many as fit on chip. It has as many threads as entries are chosen, so networks that choose
fewer need longer for a row and have more rows on an SM. What is read again comes from the
last-level cache as long as that holds the rows in work.
"""

from typing import Final

import numpy as np

from roofline.cost.kernels.form import (
    STEEP,
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Values,
    soft_maximum,
)
from roofline.cost.work import Array

THREADS: Final = 1024.0
"""Most threads of a block, which has as many as entries are chosen. [1]"""
HELD: Final = 8192.0
"""Scores at the bound that a block keeps on chip (``topk_v1.cuh``: half of 64 KiB). [1]"""
SCORE: Final = 4.0
"""Bytes of a score. [B]"""
SM_THREADS: Final = 2048.0
"""Threads of an SM (CUDA C++ Programming Guide, compute capabilities 8.0, 9.0 and 10.0). [1]"""
RESIDENT: Final = 3.0
"""Most blocks of an SM, of 64 KiB of its shared memory each. [1]"""


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Rows that need a choice, the longest alone or all in turn, then the others. [s]"""
    queries, sms, busy = dims["batch"] * dims["new"], machine.multiprocessors, dims["busy"]
    fewer, resident = blocks(dims)
    working = np.minimum(queries, sms * resident) * dims["entries"] * SCORE
    missed = 1.0 / (1.0 + (constants["held"] * machine.l2_bytes / working) ** STEEP)
    longest = row(dims["entries"], fewer, missed, constants)
    each = row(dims["judged"], fewer, missed, constants)
    abreast = constants["abreast"] * resident / (SM_THREADS / THREADS)
    turns = np.ceil(queries * busy / sms) / abreast * each
    chooses = np.where(busy > 0.0, soft_maximum(constants["sharpness"], longest, turns), 0.0)
    copied = np.maximum(queries * (1.0 - busy) / (sms * abreast), busy < 1.0) * constants["skip"]
    return constants["launch"] + chooses + copied


def blocks(dims: Dims) -> tuple[Array, Array]:
    """Threads of the largest block over those of a block, and blocks that an SM holds. [1]"""
    threads = np.minimum(dims["chosen"], THREADS)
    return THREADS / threads, np.minimum(SM_THREADS / threads, RESIDENT)


def row(scores: Array, fewer: Array, missed: Array, constants: Values) -> Array:
    """A block that chooses among some scores. [s]

    Args:
        scores: Of a query. [1]
        fewer: `THREADS` over those of the block. [1]
        missed: Share of second readings of rows in work that the last-level cache does not have.
            [1]
        constants: ``row``, ``lane``, ``refine``, ``far`` and ``narrow``.
    """
    walked = constants["lane"] * scores + constants["refine"] * np.minimum(scores, HELD)
    far = constants["far"] * missed * scores * fewer
    return constants["row"] + fewer ** constants["narrow"] * walked + far


def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    """Nothing to choose, rows at once, and rows in turn."""
    turns = dims["batch"] * dims["new"] >= machine.multiprocessors
    return np.where(dims["busy"] > 0.0, 1 + turns, 0).astype(np.intp)


FORM: Final = Form(
    "index-choice",
    (
        FormConstant("launch", 1e-7, 1e-4, 2e-6, "s", "launches around"),
        FormConstant("row", 1e-7, 1e-4, 2e-6, "s", "start and end of a block"),
        FormConstant("lane", 2e-11, 1e-8, 2e-10, "s", "two readings of a score by a block"),
        FormConstant("refine", 1e-12, 1e-8, 1e-10, "s", "further passes over a score kept on chip"),
        FormConstant(
            "far", 1e-12, 1e-8, 2e-10, "s", "second reading of a score from device memory"
        ),
        FormConstant("held", 0.1, 2.0, 0.7, "1", "share of the cache that holds rows in work"),
        FormConstant("narrow", 0.1, 1.0, 0.7, "1", "growth of a row's time with fewer threads"),
        FormConstant(
            "abreast", 0.5, 4.0, 1.2, "1", "rate of an SM with two blocks, over one alone"
        ),
        FormConstant("skip", 1e-8, 1e-4, 5e-7, "s", "a row whose entries are all chosen anyway"),
        FormConstant("sharpness", 1.0, 16.0, 4.0, "1", "exponent of the soft maximum"),
    ),
    seconds,
    ("context", "new", "batch", "chosen"),
    regime,
    "(launch + [longest^q + (rows · row / abreast)^q]^(1/q) + copies) · exp(residual)",
)
"""Choice of the best alone. Source: Alabi et al. 2012, Fast k-selection algorithms for graphics
processing units, for the selection by digits."""
