"""Measured experts under large expert parallelism, and kernels that exchange tokens as well.

SGLang's rows are of DeepGEMM behind DeepEP: while decoding a mask tells the rows of each expert,
in a prefill each expert's rows are rounded up to 128. TensorRT-LLM's are of one draw of loads, of
which the tokens that the device receives are stated, with redundant experts or without. Mega
kernels dispatch tokens, apply experts and combine the results in one.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.exchange_rows import joined
from roofline.bench.expert_rows import EXPONENTS, SHAPE, columns_of, made
from roofline.bench.kernel_rows import KEY, Name, RowGroup, columns, parts
from roofline.cost.kernels import experts, routing
from roofline.cost.kernels.form import Form
from roofline.cost.kernels.routing import Loads
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from roofline.records import replace

if TYPE_CHECKING:
    import pandas

BALANCED: Final = "_eplb"
"""End of a distribution whose experts were placed, and replicated, by their load."""
ROUNDED: Final = 128
"""Rows that those of an expert are rounded up to in a prefill behind DeepEP
(``expert_alignment`` of ``Buffer.dispatch``)."""
DRAWN: Final = 24
"""Draws among which that with the stated tokens is looked for."""
FAMILY: Final = ("hidden", "inter", "experts", "topk", "ep", "distribution", "phase")
SAMPLED: Final = "power_law_sampled_1.9"
"""Tokens choose one by one, by weights of a power law between 1 and 1024."""
EXPONENT: Final = 1.9
WEIGHTS: Final = (1.0, 1024.0)
MOST: Final = 4096
"""Tokens that are drawn; more are in proportion."""
SENT: Final = 1.0 + 1.0 / 32
"""Bytes per number that is dispatched, in MXFP8. [B]"""
RETURNED: Final = 2.0
"""The same of what each chosen expert gives back, in 16 bits. [B]"""


def wide_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Experts of one device under large expert parallelism, by phase."""
    for name, rows in parts(frame, (*KEY, "phase")):
        sizes = ("num_tokens", "topk", "experts", "ep", "tp", "slots", "rank_tokens")
        tokens, active, every, ep, tp, slots, stated = columns(rows, sizes)
        keys = zip(tokens, every, active, ep, slots, stated, rows.distribution, strict=True)
        found = [
            _loads(*(int(each) for each in key[:6]), str(key[6]), name["phase"]) for key in keys
        ]
        met = np.array([each.tokens for each in found])
        form = experts.EAGER if name["phase"] == "prefill" else experts.FORM
        yield _group(name, rows, found, met, np.ceil(slots / ep), SHAPE, form, tp)


def mega_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Dispatch, experts and combination in one kernel; a family is a split and a distribution."""
    for name, rows in parts(frame, KEY):
        sizes = ("num_tokens", "hidden", "topk", "experts", "ep")
        tokens, hidden, active, every, ep = columns(rows, sizes)
        keys = zip(tokens, every, active, ep, rows.distribution, strict=True)
        found = [busiest(int(t), int(e), int(k), int(g), str(d)) for t, e, k, g, d in keys]
        arrived = np.array([each.tokens for each in found])
        chosen = np.array([each.rows for each in found])
        local = np.ceil(every / ep)
        group = _group(name, rows, found, chosen / active, local, FAMILY, experts.MEGA)
        _, rate = joined(gpu(name["gpu"]), 1.0)
        more = {
            "exchanged": hidden * (arrived * SENT + chosen * RETURNED),
            "bytes_per_s": np.full(len(rows), rate),
        }
        yield replace(group, dims=group.dims | more)


def _group(
    name: Name,
    rows: "pandas.DataFrame",
    found: Sequence[Loads],
    tokens: Array,
    local: Array,
    family: tuple[str, ...],
    form: Form,
    tp: Array | float = 1.0,
) -> RowGroup:
    """Group of rows, from the loads, the tokens and the experts of the device of each row."""
    hidden, inter, active = columns(rows, ("hidden", "inter", "topk"))
    dims = columns_of(name["dtype"], tokens, hidden, inter / tp, active, local, rows)
    dims |= {
        "rows": np.array([each.rows for each in found]),
        "touched": np.array([each.touched for each in found]),
    }
    tiles = np.array([each.tiles for each in found]).T
    return made(name, dims, dict(zip(experts.HEIGHTS, tiles, strict=True)), rows, family, form)


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
    """Loads of the device, made up as the source of the rows did."""
    exponent = EXPONENTS[distribution.removesuffix(BALANCED)]
    if stated:
        # The draw in which the device gets as near as can be the stated tokens.
        placed = distribution.endswith(BALANCED)
        known = _known(tokens, every, active, groups, slots, exponent, placed)
        met, own = min(known, key=lambda draw: abs(draw[0] - stated))
        rows = np.clip(np.round(own * (stated / max(met, 1))).astype(np.int64), 0, stated)
        # As many tokens have one choice on the device at least.
        rows[int(rows.argmax())] += max(0, stated - int(rows.sum()))
        return routing.summed(np.minimum(rows, stated), stated)
    held, prefill = every // groups, phase == "prefill"
    if exponent:
        drawn = [
            loads[:held] for loads in _draws(tokens, every, active, groups, exponent, routing.DRAWS)
        ]
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
    tokens: int, every: int, active: int, groups: int, exponent: float, draws: int
) -> tuple[routing.Rows, ...]:
    return tuple(routing.power_law(tokens, every, active, groups, exponent, draws))


@cache
def _known(
    tokens: int, every: int, active: int, groups: int, slots: int, exponent: float, placed: bool
) -> tuple[tuple[int, routing.Rows], ...]:
    """Tokens that the busiest device receives, and the rows of its slots, in some draws."""
    held, found = slots // groups, []
    for loads in _draws(tokens, every, active, groups, exponent, DRAWN):
        own = _placed(loads, slots, groups) if placed else loads
        chosen = routing.assigned(own, tokens, active)
        found.append((int((chosen < held).any(axis=1).sum()), own[:held]))
    return tuple(found)


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


@cache
def busiest(tokens: int, every: int, active: int, groups: int, distribution: str) -> routing.Loads:
    """Loads of the device with most to do, and the tokens that arrive there, in the mean."""
    held = every // groups
    if distribution == SAMPLED:
        drawn = list(_sampled(tokens, every, active, groups))
    elif EXPONENTS[distribution]:
        loads = routing.power_law(tokens, every, active, groups, EXPONENTS[distribution], 2)
        drawn = [(1.0, routing.assigned(each, tokens, active)) for each in loads]
    else:
        drawn = [(1.0, routing.balanced(tokens, every, active))]
    found = []
    for factor, chosen in drawn:
        rows = np.bincount(chosen.ravel(), minlength=every)[:held] * factor
        met = int((chosen < held).any(axis=1).sum() * factor)
        found.append(routing.summed(np.ceil(rows).astype(np.int64), met))
    return routing.mean(found)


def _sampled(
    tokens: int, every: int, active: int, groups: int
) -> Iterator[tuple[float, routing.Rows]]:
    """Experts of some tokens, those of the busiest device first, and how many tokens each is."""
    random, power = np.random.default_rng(0), 1.0 - EXPONENT
    low, high = (bound**power for bound in WEIGHTS)
    some, held = min(tokens, MOST), every // groups
    for _ in range(2):
        weights = (low + (high - low) * random.random(every)) ** (1.0 / power)
        # The largest of exponential races are a draw without replacement.
        races = random.exponential(size=(some, every)) / weights
        chosen = np.argpartition(races, active - 1, axis=1)[:, :active]
        most = int(np.bincount((chosen // held).ravel(), minlength=groups).argmax())
        if most:
            own, first = chosen // held == most, chosen // held == 0
            chosen = np.where(
                own, chosen - most * held, np.where(first, chosen + most * held, chosen)
            )
        yield tokens / some, chosen
