"""Measured kernels that exchange tokens and apply experts in one, as columns of their form."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.exchange_rows import joined
from roofline.bench.expert_rows import EXPONENTS, columns_of, made, numbers
from roofline.bench.kernel_rows import Group, parts
from roofline.cost.kernels import experts, routing
from roofline.hardware.catalog import gpu

if TYPE_CHECKING:
    import pandas

KEY: Final = ("gpu", "backend", "version", "kernel", "dtype")
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


def mega_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Dispatch, experts and combination in one kernel; a family is a split and a distribution."""
    for name, rows in parts(frame, KEY):
        sizes = ("num_tokens", "hidden", "inter", "topk", "experts", "ep")
        tokens, hidden, inter, active, every, ep = (numbers(rows, each) for each in sizes)
        keys = zip(tokens, every, active, ep, rows.distribution, strict=True)
        found = [busiest(int(t), int(e), int(k), int(g), str(d)) for t, e, k, g, d in keys]
        arrived = np.array([each.tokens for each in found])
        chosen = np.array([each.rows for each in found])
        tiles = np.array([each.tiles for each in found]).T
        local = np.ceil(every / ep)
        dims = columns_of(name["dtype"], chosen / active, hidden, inter, active, local, rows)
        dims |= {"rows": chosen, "touched": np.array([each.touched for each in found])}
        high = dict(zip(experts.HEIGHTS, tiles, strict=True))
        group = made(name, dims, high, rows, FAMILY, experts.MEGA)
        _, rate = joined(gpu(name["gpu"]), 1.0)
        more = {
            "exchanged": hidden * (arrived * SENT + chosen * RETURNED),
            "bytes_per_s": np.full(len(rows), rate),
        }
        yield replace(group, dims=group.dims | more)


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
