"""One forward step of a network: its operators and their work on one device.

Prefill, decode, chunked prefill, verification of a draft and mixed batches are the same function
of groups of sequences. Attention is one operator per group; everything else sees all new tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layers import blocks
from roofline.cost.layers.common import Pass
from roofline.cost.work import Number, Op, times


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences that do the same in a step.

    Attributes
    ----------
    count
        Sequences. [1]
    new
        New tokens T of each. [token]
    context
        Keys the last new token sees, itself included: S. [token]
    name
        Tells groups apart in a mixed step: ``"prefill"``.
    """

    count: Number
    new: Number
    context: Number
    name: str = ""


def prefill(batch: Number, prompt: Number, cached: Number = 0.0) -> Group:
    """Prompts of a length, of which the first tokens are cached already.

    Parameters
    ----------
    batch
        Sequences. [1]
    prompt, cached
        Length, and how much of it is in the cache. [token]

    Notes
    -----
    Source: T = prompt − cached and S = prompt, the conventions of `Group`.
    """
    return Group(batch, prompt - cached, prompt)


def decode(batch: Number, cached: Number) -> Group:
    """One new token for each sequence.

    Parameters
    ----------
    batch
        Sequences. [1]
    cached
        Tokens before the new one. [token]

    Notes
    -----
    Source: T = 1 and S = cached + 1, the conventions of `Group`.

    Examples
    --------
    >>> decode(8, 512).context
    513
    """
    return Group(batch, 1.0, cached + 1)


def step(deployment: Deployment, groups: Sequence[Group] | Group) -> dict[str, Op]:
    """Operators of one forward step, in order of execution, as one device sees them.

    Parameters
    ----------
    deployment
        Network, formats, layout and options.
    groups
        What each sequence does; numbers may be arrays over the scenario axis.

    Returns
    -------
    dict
        Operators by name. Layers whose operator is the same share one entry, with their number as
        ``repeat``; entries that differ are told apart in the name (``attention-window-4096``).

    Notes
    -----
    Left out: sampling from the logits, and a few vector FLOP per element.
    Source: the layers of Vaswani et al. 2017 (arXiv 1706.03762), fused as serving engines do.
    """
    every = [groups] if isinstance(groups, Group) else groups
    numbers = tuple(
        (group.name, _float(group.count), _float(group.new), _float(group.context))
        for group in every
    )
    pass_ = Pass(
        deployment,
        numbers,
        tokens=_total([times(count, new) for _, count, new, _ in numbers]),
        rows=_total([count for _, count, _, _ in numbers]),
    )
    kinds = deployment.architecture.kinds.items()
    return _merged(
        [
            *blocks.embedding(pass_),
            *(op for block, number in kinds for op in blocks.block(pass_, block, number)),
            *blocks.head(pass_),
        ]
    )


def _float(value: Number) -> Number:
    """float64 from any kind of number: FLOP counts overflow int64."""
    return value.astype(np.float64, copy=False) if isinstance(value, np.ndarray) else float(value)


def _total(terms: list[Number]) -> Number:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _merged(ops: Iterable[Op]) -> dict[str, Op]:
    """Add up the repeats of equal operators; rename those that only share a name."""
    out: dict[str, Op] = {}
    for op in ops:
        name, number = op.name, 1
        while name in out and not _equal(out[name], op):
            number += 1
            name = f"{op.name}-{number}"
        repeat = op.repeat + (out[name].repeat if name in out else 0)
        out[name] = replace(op, name=name, repeat=repeat)
    return out


def _equal(a: Op, b: Op) -> bool:
    """Whether two operators have one shape. Arrays of a step are shared, so identity will do."""

    def same(x: Number, y: Number) -> bool:
        return x is y or (
            not isinstance(x, np.ndarray) and not isinstance(y, np.ndarray) and x == y
        )

    # Weights tell layers apart that differ in a bias or a norm only.
    return same(a.work.weight_bytes, b.work.weight_bytes) and all(
        same(a.dims[key], value) for key, value in b.dims.items()
    )
