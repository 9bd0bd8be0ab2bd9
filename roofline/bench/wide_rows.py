"""Measured experts of one device under large expert parallelism, whose tokens come from others.

SGLang's rows are of DeepGEMM behind DeepEP: while decoding a mask tells the rows of each expert,
in a prefill each expert's rows are rounded up to 128. TensorRT-LLM's are of one draw of loads, of
which the tokens that the device receives are stated, with redundant experts or without.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.expert_rows import EXPONENTS, SHAPE, columns_of, made, numbers
from roofline.bench.kernel_rows import Group, parts
from roofline.cost.kernels import experts, routing
from roofline.cost.kernels.routing import Loads

if TYPE_CHECKING:
    import pandas

KEY: Final = ("gpu", "backend", "version", "kernel", "dtype", "phase")
BALANCED: Final = "_eplb"
"""End of a distribution whose experts were placed, and replicated, by their load."""
ROUNDED: Final = 128
"""Rows that those of an expert are rounded up to in a prefill behind DeepEP
(``expert_alignment`` of ``Buffer.dispatch``)."""
DRAWN: Final = 24
"""Draws among which that with the stated tokens is looked for."""


def wide_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Experts of one device under large expert parallelism, by phase."""
    for name, rows in parts(frame, KEY):
        sizes = ("num_tokens", "hidden", "inter", "topk", "experts", "tp", "ep", "slots")
        tokens, hidden, inter, active, every, tp, ep, slots = (numbers(rows, s) for s in sizes)
        stated = numbers(rows, "rank_tokens")
        keys = zip(tokens, every, active, ep, slots, stated, rows.distribution, strict=True)
        found = [
            _loads(*(int(each) for each in key[:6]), str(key[6]), name["phase"]) for key in keys
        ]
        chosen = np.array([each.rows for each in found])
        tiles = np.array([each.tiles for each in found]).T
        dims = columns_of(
            name["dtype"],
            np.array([each.tokens for each in found]),
            hidden,
            inter / tp,
            active,
            np.ceil(slots / ep),
            rows,
        )
        dims |= {"rows": chosen, "touched": np.array([each.touched for each in found])}
        form = experts.EAGER if name["phase"] == "prefill" else experts.FORM
        high = dict(zip(experts.HEIGHTS, tiles, strict=True))
        yield made(name, dims, high, rows, SHAPE, form)


@cache
def _loads(
    tokens: int,
    every: int,
    active: int,
    groups: int,
    slots: int,
    stated: int,
    distribution: str,
    phase: str,
) -> Loads:
    """Loads of the device, as the source made them up."""
    exponent = EXPONENTS[distribution.removesuffix(BALANCED)]
    if stated:
        placed = distribution.endswith(BALANCED)
        return _stated(tokens, every, active, groups, slots, stated, exponent, placed)
    held, prefill = every // groups, phase == "prefill"
    if exponent:
        drawn = [loads[:held] for loads in _draws(tokens, every, active, groups, exponent)]
        if prefill:
            drawn = [-(-loads // ROUNDED) * ROUNDED for loads in drawn]
    else:
        each = tokens * active // every
        # Even rows were given without rounding: a block of 128 is one expert's.
        few = held * each // ROUNDED if prefill else tokens * active // groups
        busy = held if each >= (ROUNDED if prefill else 1) else min(held, max(1, few))
        drawn = [np.full(busy, max(1, held * each // busy))]
    if prefill:
        return routing.mean([routing.summed(loads, tokens) for loads in drawn])
    return routing.mean([routing.summed(loads, int(loads.sum()) // active) for loads in drawn])


@cache
def _draws(
    tokens: int, every: int, active: int, groups: int, exponent: float
) -> tuple[routing.Rows, ...]:
    return tuple(routing.power_law(tokens, every, active, groups, exponent))


def _stated(
    tokens: int,
    every: int,
    active: int,
    groups: int,
    slots: int,
    stated: int,
    exponent: float,
    placed: bool,
) -> Loads:
    """Loads of the draw in which the device gets as near as can be the stated tokens."""
    held = slots // groups
    best, nearest = None, np.inf
    for met, own in _known(tokens, every, active, groups, slots, exponent, placed):
        if abs(met - stated) < nearest:
            best, nearest = (met, own), abs(met - stated)
    assert best is not None
    met, own = best
    rows = np.clip(np.round(own * (stated / max(met, 1))).astype(np.int64), 0, stated)
    # As many tokens have one choice on the device at least.
    rows[int(rows.argmax())] += max(0, stated - int(rows.sum()))
    assert len(rows) == held
    return routing.summed(np.minimum(rows, stated), stated)


@cache
def _known(
    tokens: int,
    every: int,
    active: int,
    groups: int,
    slots: int,
    exponent: float,
    placed: bool,
) -> tuple[tuple[int, routing.Rows], ...]:
    """Tokens that the busiest device receives, and the rows of its slots, in some draws."""
    held, found = slots // groups, []
    for loads in _many(tokens, every, active, groups, exponent):
        own = _placed(loads, slots, groups) if placed else loads
        chosen = routing.assigned(own, tokens, active)
        found.append((int((chosen < held).any(axis=1).sum()), own[:held]))
    return tuple(found)


@cache
def _many(
    tokens: int, every: int, active: int, groups: int, exponent: float
) -> tuple[routing.Rows, ...]:
    return tuple(routing.power_law(tokens, every, active, groups, exponent, DRAWN))


def _placed(loads: routing.Rows, slots: int, groups: int) -> routing.Rows:
    """Rows of slots: the hottest experts have more, and each device takes the largest left.

    Source: ``compute_eplb`` of aiconfigurator (``collector/helper.py``), after DeepSeek's EPLB
    (https://github.com/deepseek-ai/EPLB).
    """
    copies = np.ones(len(loads), dtype=np.int64)
    for _ in range(slots - len(loads)):
        copies[int((loads / copies).argmax())] += 1
    share = np.repeat(loads / copies, copies)
    held = slots // groups
    full, load = np.zeros(groups, dtype=np.int64), np.zeros(groups)
    device = np.empty(slots, dtype=np.int64)
    for slot in np.argsort(-share, kind="stable"):
        to = int(np.where(full < held, load, np.inf).argmin())
        device[slot], full[to], load[to] = to, full[to] + 1, load[to] + share[slot]
    order = np.argsort(device != int(load.argmax()), kind="stable")
    found = np.floor(share[order]).astype(np.int64)
    left = int(loads.sum() - found.sum())
    found[np.argsort(-(share[order] - found), kind="stable")[:left]] += 1
    return found
