"""Phases of a static batch as functions of numbers or arrays: of batches, or of layouts."""

from collections.abc import Sequence
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


def together(
    deployment: Deployment, work: Workload, batch: Number, new: Number | None = None
) -> Number:
    """Prompts prefilled in one step: as asked, else all; in a pipeline, what a step holds. [1]

    Parameters
    ----------
    deployment
        Layout and engine.
    work
        Lengths, and prompts in one step if they were asked for.
    batch
        Sequences. [1]
    new
        Tokens of each prompt that are not cached, where not as the workload says. [token]
    """
    if work.prefill_batch:
        return np.minimum(batch, float(work.prefill_batch))
    layout = deployment.layout
    if layout.pp == 1:
        return batch
    _, size = turns(batch, layout)
    if layout.microbatches:
        return size
    each = float(work.prompt - work.cached) if new is None else new
    return np.minimum(size, prompts_in_a_step(deployment, each))


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
    priced = through(deployment, work.prefill(prompts))
    left, last = left_over(batch, prompts), None
    if left is not None:
        last = [stage.seconds() for stage in through(deployment, work.prefill(left))]
    kernels = last_of([stage.seconds() for stage in priced], last, batch, prompts)
    costs = deployment.engine_costs
    software = costs.arrival_s + np.ceil(batch / prompts) * costs.prefill_step_s
    ends = costs.prefill_gain * kernels + software
    return FirstTokens(ends, costs.log_sd(log_sd_of_slowest(priced), 1.0 - software / ends))


def left_over(batch: Number, prompts: Number) -> Number | None:
    """Prompts of the step after the full ones, 1 where there is no such step; None without any.

    Parameters
    ----------
    batch, prompts
        Sequences, and how many are prefilled in one step. [1]

    Examples
    --------
    >>> left_over(10.0, 4.0), left_over(8.0, 4.0)
    (np.float64(2.0), None)
    """
    left = batch - np.floor(batch / prompts) * prompts
    return np.where(left > 0, left, 1.0)[()] if np.any(left) else None


def last_of(
    stages: Sequence[Number], last: Sequence[Number] | None, batch: Number, prompts: Number
) -> Number:
    """When the last prompt of a batch has its first token. [s]

    Parameters
    ----------
    stages, last
        Time of each stage in a full prefill step, and in one of those that are `left_over`. [s]
    batch, prompts
        Sequences, and how many are prefilled in one step. [1]
    """
    full = np.floor(batch / prompts)
    if last is None:
        return finish(stages, full)
    ends = finish_with(stages, full, last)
    return np.where(batch > full * prompts, ends, finish(stages, full))[()]
