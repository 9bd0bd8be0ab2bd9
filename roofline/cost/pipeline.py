"""Time of batches that pass through the stages of a pipeline.

A batch is cut into micro-batches that follow one another; a stage works on one at a time. Stages
need not be equal: the slowest sets the pace.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from roofline.cost.work import Number


def fill(stages: Sequence[Number]) -> Number:
    """Time from the start of a micro-batch to its end, with nobody in the way. [s]

    Source: the sum of the stages; a pipeline with one micro-batch is serial.

    Args:
        stages: Time of each stage, with what it sends on. [s]
    """
    return reduce(add, stages)


def pace(stages: Sequence[Number]) -> Number:
    """Time from the end of one micro-batch to that of the next. [s]

    Source: the slowest stage.

    Args:
        stages: Time of each stage, with what it sends on. [s]
    """
    slowest: Number = reduce(np.maximum, stages)
    return slowest


def finish(stages: Sequence[Number], number: Number) -> Number:
    """Time until the last of some equal micro-batches is done. [s]

    fill + (m − 1) · pace. With p equal stages it is (m + p − 1) stages: a bubble of (p − 1)/m of
    the ideal time. Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2; flow shop of
    equal jobs for stages that differ.

    Args:
        stages: Time of each stage, with what it sends on. [s]
        number: Micro-batches, one after the other. [1]

    Examples:
        >>> float(finish([1.0, 1.0, 1.0, 1.0], 8)) / 8 - 1
        0.375
    """
    return fill(stages) + (number - 1.0) * pace(stages)


def finish_with(stages: Sequence[Number], number: Number, last: Sequence[Number]) -> Number:
    """Time until a smaller micro-batch after some equal ones is done. [s]

    At each stage it waits for itself from the stage before and for the one ahead.
    Source: recursion of the flow shop, C(j, s) = max(C(j, s − 1), C(j − 1, s)) + t(s).

    Args:
        stages, last: Time of each stage, for the equal ones and for the last one. [s]
        number: Equal micro-batches before it. [1]

    Examples:
        Two of (2, 1), then one of (1, 1): 2, 4, 5 after the first stage, 3, 5, 6 after the second:

        >>> float(finish_with([2.0, 1.0], 2, [1.0, 1.0]))
        6.0
    """
    done: Number = 0.0
    for stage, each in enumerate(last):
        ahead = np.where(np.asarray(number) > 0, finish(stages[: stage + 1], number), 0.0)[()]
        done = np.maximum(done, ahead) + each
    return done


def period(stages: Sequence[Number], number: Number) -> Number:
    """Time between two tokens of a sequence while some micro-batches take turns. [s]

    A sequence's next token starts when its last one is out, and waits its turn: the larger of fill
    and m · pace. Source: cyclic flow shop of equal jobs.

    Args:
        stages: Time of each stage for one micro-batch, with what it sends on. [s]
        number: Micro-batches m. [1]

    Examples:
        >>> [float(period([1.0, 2.0], number)) for number in (1, 2)]
        [3.0, 4.0]
    """
    return np.maximum(fill(stages), number * pace(stages))
