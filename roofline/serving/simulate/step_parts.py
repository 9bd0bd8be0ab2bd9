"""Times of the parts of a step, which tables hold and of which any step is the sum.

Kernels are looked up once, alone (`roofline.serving.simulate.kernels`); here an engine's gains are
on them, and the stages and micro-batches of a pipeline are put together.
"""

from collections.abc import Callable, Sequence

import numpy as np

from roofline.cost.work import Array, Number, union
from roofline.model import tower
from roofline.serving.quadrature import halved
from roofline.serving.simulate.kernels import (
    StepKernels,
    alone_part,
    attended_part,
    chunk_part,
    encoding_part,
    head_part,
    others_part,
)
from roofline.serving.stages import finish, pace, period
from roofline.serving.workload import turns_of


def attention(
    kernels: StepKernels, batches: Array, contexts: Array, window: int | None = None
) -> Array:
    """Attention of a step that only decodes, of shape (batches, contexts). [s]"""
    if window == 0:
        return np.zeros((len(batches), len(contexts)))
    asked = attended_part(kernels.deployment, batches, contexts, window)
    return asked.table(kernels.seconds(asked.part))


def decode(kernels: StepKernels, batches: Array, contexts: Array) -> Array:
    """Steps that only decode, without windows, of shape (batches, contexts). [s]

    Attention is hidden as far as something else sets the pace: only together do they have a price.
    """
    deployment = kernels.deployment
    if not deployment.to_and_fro:
        return attention(kernels, batches, contexts) + alone(kernels, batches)[:, None]
    asked = attended_part(deployment, batches, contexts)
    attended = [asked.at(each) for each in kernels.seconds(asked.part)]
    rest = kernels.seconds(alone_part(deployment, batches))
    number, _ = turns_of(batches, deployment)
    stages = [
        one + np.broadcast_to(other, batches.shape)[:, None]
        for one, other in zip(attended, rest, strict=True)
    ]
    return np.asarray(period(stages, np.broadcast_to(number, batches.shape)[:, None]))


def alone(kernels: StepKernels, batches: Array) -> Array:
    """Part of a step that only decodes which is no attention. [s]"""
    return rounds(kernels, batches, kernels.seconds(alone_part(kernels.deployment, batches)))


def rounds(kernels: StepKernels, count: Array, stages: Sequence[Number]) -> Array:
    """Steps of so many sequences or tokens, of all micro-batches, by time of each stage. [s]"""
    number, _ = turns_of(count, kernels.deployment)
    through = finish if kernels.deployment.engine.micro_batch_tokens else period
    return np.broadcast_to(through(stages, number), count.shape).copy()


def others(kernels: StepKernels, ahead: int) -> Callable[[Array], Array]:
    """Function that gives steps of so many new tokens without attention, for one row of logits.

    Tokens of so many halvings are looked up at once, whichever of them refining asks about.
    """
    deployment = kernels.deployment
    seen = np.zeros(0)

    def price(tokens: Array) -> Array:
        nonlocal seen
        seen = union(seen, tokens)
        stages = kernels.seconds(
            others_part(deployment, tokens),
            lambda: others_part(deployment, halved(seen, tokens, ahead)).group,
        )
        return rounds(kernels, tokens, stages)

    return price


def head(kernels: StepKernels, rows: Array, price: Callable[[Array], Array]) -> Array:
    """Time that rows of logits beyond the first add to a step, whose `others` are given. [s]"""
    whole = rounds(kernels, rows, kernels.seconds(head_part(kernels.deployment, rows)))
    return np.maximum(whole - price(rows), 0.0)


def chunk_attention(kernels: StepKernels, chunks: Array, cached: Array) -> Array:
    """Attention of chunks for each of their tokens, of shape (chunks, cached). [s]"""
    shape, groups = (len(chunks), len(cached)), kernels.deployment.layout.dp
    stages = kernels.seconds(chunk_part(kernels.deployment, chunks, cached))
    if kernels.deployment.engine.micro_batch_tokens:
        number, _ = turns_of(np.repeat(chunks, len(cached)), kernels.deployment)
        whole = finish(stages, number)
    else:
        whole = pace(stages)
    each: Array = np.broadcast_to(whole, len(chunks) * len(cached)).reshape(shape)
    return (each / groups + encoding(kernels, chunks, cached)) / chunks[:, None]


def encoding(kernels: StepKernels, chunks: Array, cached: Array) -> Array:
    """Time of the towers over the media of every chunk, of shape (chunks, cached). [s]

    Those that begin in a chunk and end in the next take their share of both.
    """
    deployment = kernels.deployment
    network, media = deployment.architecture, deployment.options.media
    if not tower.encoding(network, media):
        return np.zeros((len(chunks), len(cached)))
    stages = kernels.seconds(encoding_part(deployment))
    whole = np.max(pace(stages)) / float(deployment.layout.dp)
    return np.asarray(whole * tower.share(network, media, chunks[:, None], cached))
