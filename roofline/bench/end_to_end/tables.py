"""Times of the steps of a deployment as tables, so that an event loop can look them up.

Everything but attention depends on the new tokens of a step only; the LM head on its sequences;
attention of decoding sequences on their number and mean context; that of a prompt on its length:
the chunk that brings a prompt from s to S tokens takes what S take from empty, less what s take.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration.kernel import Kernel
from roofline.cost.deployment import Deployment
from roofline.cost.memory import budget, kv_bytes_per_sequence
from roofline.cost.roof import roof
from roofline.cost.step import Group, step
from roofline.cost.work import Array, Number, Op

Integers = NDArray[np.int64]

TOKENS: Final = np.unique(np.round(2.0 ** np.arange(0.0, 17.01, 0.5)))
"""New tokens of a step: up to a whole batch of long prompts. [token]"""
COUNTS: Final = 2.0 ** np.arange(0.0, 13.01, 1.0)
"""Decoding sequences. [1]"""
CONTEXTS: Final = np.array([1.0, 64, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072])
"""Keys that a sequence attends to. [token]"""
PROMPTS: Final = np.array(
    [1.0, 16, 32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384, 32768]
)
"""Lengths of prompts. [token]"""
CLASSES: Final = ("dense", "dense-start", "experts", "experts-start", "wires")
"""What the operators that are not attention are: matrices and passes over activations, and routed
experts, each without and with what measured kernels take to start; collectives."""
STARTS: Final = {"gemm": ("start", 1.0), "moe": ("launch", 0.5)}
"""Constant of a product's form that is its start, and the share of it that one operator has."""
LITTLE: Final = 0.03
"""Least share of a device's memory that caches get, or the deployment would not have been run."""
ALL: Final = 0.95
"""Share of a device's memory that an engine can be given at most."""
STEP_TOKENS: Final = 8192.0
"""New tokens of a step that activations are counted for. [token]"""
MEMORY_SHARES: Final = {"vllm": 0.90, "trtllm": 0.90, "sglang": 0.88}
"""Share of a device that each engine is taken to use for everything; the shipped constants were
fitted with these. [1]"""
_HEAD: Final = ("lm-head", "final-norm", "project-out", "all-gather-logits", "quantise-lm-head")


@dataclass(frozen=True, slots=True)
class Tables:
    """Times of the steps of a deployment. [s]

    Attributes
    ----------
    body
        By token count of `TOKENS` and class of `CLASSES`: the layers without attention.
    head
        The same by sequences whose logits are computed.
    decoding
        Attention by `COUNTS` and `CONTEXTS`.
    prompt
        Attention of one prompt of each length of `PROMPTS`.
    room
        Tokens that the caches of all devices hold beside the weights. [token]
    floor
        Time in which the weights that a step of one token reads come from memory. [s]
    """

    body: Array
    head: Array
    decoding: Array
    prompt: Array
    room: float
    floor: float


def tables(deployment: Deployment, typical: float) -> Tables:
    """Price the steps of a deployment.

    Parameters
    ----------
    deployment
        With the calibration to price by.
    typical
        Length of a sequence at its end, which the room is counted at. [token]
    """
    body, head, decoding = _tokens(deployment)
    return Tables(
        body,
        head,
        decoding,
        _prompts(deployment),
        room(deployment, typical),
        float(body[0].sum() + head[0].sum()),
    )


def _tokens(deployment: Deployment) -> tuple[Array, Array, Array]:
    name = "decode"
    once = step(deployment, [Group(TOKENS, 1.0, 2.0, name)])
    body = np.zeros((len(TOKENS), len(CLASSES)))
    head = np.zeros_like(body)
    for op in once.values():
        if not _attends(op, name):
            where = head if op.name.startswith(_HEAD) else body
            _add(where, op, deployment)
    counts, contexts = (grid.ravel() for grid in np.meshgrid(COUNTS, CONTEXTS, indexing="ij"))
    attended = step(deployment, [Group(counts, 1.0, contexts, name)])
    decoding = np.zeros(counts.shape)
    for op in attended.values():
        if _attends(op, name):
            decoding += _seconds(op, deployment, counts.shape)
    return body, head, decoding.reshape(len(COUNTS), len(CONTEXTS))


def _prompts(deployment: Deployment) -> Array:
    name = "prefill"
    attended = step(deployment, [Group(1.0, PROMPTS, PROMPTS, name)])
    out = np.zeros(PROMPTS.shape)
    for op in attended.values():
        if _attends(op, name):
            out += _seconds(op, deployment, PROMPTS.shape)
    return np.maximum.accumulate(out)


def _attends(op: Op, group: str) -> bool:
    """Whether an operator belongs to the group of sequences rather than to all new tokens."""
    return op.name.endswith(f"-{group}") or f"-{group}-" in op.name


def _add(where: Array, op: Op, deployment: Deployment) -> None:
    """Add an operator to its class, and what its kernels take to start to that of starts."""
    spent = _seconds(op, deployment, TOKENS.shape)
    if op.kind == "collective":
        where[:, CLASSES.index("wires")] += spent
        return
    place = CLASSES.index("experts" if op.kind == "moe" else "dense")
    start = np.minimum(_start(op, deployment) * op.repeat, spent)
    where[:, place] += spent - start
    where[:, place + 1] += start


def _start(op: Op, deployment: Deployment) -> float:
    """What a measured product takes to start, alone. [s]"""
    if op.kind not in STARTS or deployment.calibration is None:
        return 0.0
    priced = deployment.calibration.price(op, deployment.node.gpu)
    fit = None if priced is None or priced.found is None else priced.found.fit
    if not isinstance(fit, Kernel):
        return 0.0
    name, share = STARTS[op.kind]
    return fit.model.constants[name] * share


def _seconds(op: Op, deployment: Deployment, shape: tuple[int, ...]) -> Array:
    time: Number = roof(op, deployment, float(op.repeat)).seconds
    return np.broadcast_to(np.asarray(time, float), shape)


def room(deployment: Deployment, typical: float) -> float:
    """Tokens that fit into the caches of a replica, at least one sequence's. [token]

    Parameters
    ----------
    deployment
        What is laid out where, and the engine's share of memory.
    typical
        Length at which a sequence is counted. [token]

    Notes
    -----
    Source: the budget of `roofline.cost.memory` with a step of the engine's token limit.
    """
    held = budget(
        deployment,
        batch=1.0,
        context=typical,
        step_tokens=STEP_TOKENS,
        step_rows=256.0,
        utilization=MEMORY_SHARES[deployment.engine.name],
    )
    pool = held.pool
    if pool < LITTLE * held.capacity:
        # Where its usual share does not hold the weights, an engine is given all there is.
        pool = max(pool + ALL * held.capacity - held.budget, LITTLE * held.capacity)
    each = float(np.asarray(kv_bytes_per_sequence(deployment, typical))) / deployment.layout.pp
    if each <= 0:
        return np.inf
    fitting = pool / each * float(deployment.layout.dp)
    return max(fitting, 1.0) * typical


def scaled(prices: Tables, gains: Array, attention: float) -> Tables:
    """The tables with each class of operators, and attention, times a factor.

    Parameters
    ----------
    prices
        As `tables`.
    gains
        One factor for each of `CLASSES`. [1]
    attention
        Factor of attention. [1]
    """
    return replace(
        prices,
        body=prices.body * gains,
        head=prices.head * gains,
        decoding=prices.decoding * attention,
        prompt=prices.prompt * attention,
    )
