"""Phases of a static batch as functions of numbers or arrays: of batches, or of layouts."""

from dataclasses import dataclass

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.pipeline import finish, finish_with
from roofline.cost.work import Number
from roofline.serving.room import prompts_in_a_step
from roofline.serving.stages import log_sd_of_slowest, through
from roofline.serving.workload import Workload


def turns(batch: Number, layout: Layout) -> tuple[Number, Number]:
    """Micro-batches that take turns in a pipeline, and sequences of each; one without it. [1]

    Parameters
    ----------
    batch
        Sequences. [1]
    layout
        Stages, and micro-batches if they were asked for.

    Examples
    --------
    >>> number, size = turns(10.0, Layout(pp=4))
    >>> float(number), float(size)
    (4.0, 3.0)
    """
    if layout.pp == 1:
        return 1.0, batch
    size = np.ceil(batch / np.minimum(float(layout.microbatches or layout.pp), batch))
    return np.ceil(batch / size), size


def together(deployment: Deployment, work: Workload, batch: Number) -> Number:
    """Prompts prefilled in one step: as asked, else all; in a pipeline, what a step holds. [1]

    Parameters
    ----------
    deployment
        Layout and engine.
    work
        Lengths, and prompts in one step if they were asked for.
    batch
        Sequences. [1]
    """
    if work.prefill_batch:
        return np.minimum(batch, float(work.prefill_batch))
    layout = deployment.layout
    if layout.pp == 1:
        return batch
    _, size = turns(batch, layout)
    if layout.microbatches:
        return size
    return np.minimum(size, prompts_in_a_step(deployment, work))


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """Prefill of a batch.

    Attributes
    ----------
    seconds
        Time to the first token of the prompt that is prefilled last. [s]
    log_sd
        Standard deviation of its logarithm; 0 at datasheet rates. [1]
    """

    seconds: Number
    log_sd: Number


def first_tokens(
    deployment: Deployment, work: Workload, batch: Number, prompts: Number
) -> FirstTokens:
    """Prefill of a batch in as many steps as it takes.

    Parameters
    ----------
    deployment
        What runs.
    work
        Lengths.
    batch, prompts
        Sequences, and how many are prefilled in one step. [1]
    """
    full = np.floor(batch / prompts)
    left = batch - full * prompts
    priced = through(deployment, work.prefill(prompts))
    stages = [stage.seconds() for stage in priced]
    ends = finish(stages, full)
    if np.any(left):
        tails = through(deployment, work.prefill(np.where(left > 0, left, 1.0)[()]))
        longer = finish_with(stages, full, [stage.seconds() for stage in tails])
        ends = np.where(left > 0, longer, ends)[()]
    return FirstTokens(ends, log_sd_of_slowest(priced))
