"""Requests whose LoRA adapter is not on the device, and what they wait for it."""

from collections import OrderedDict
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.adapters import Lora, popularity
from roofline.serving.requests import Integers
from roofline.serving.simulate.served import Served

WARM: Final = 8
"""Times as many requests as there are adapters, after which the device has those that it usually
has. [1]"""
SEED: Final = 0


def chosen(lora: Lora, sequences: int, *, before: bool = False) -> Integers:
    """Adapters that so many sequences choose, in order; the same ones in every run. [1]

    Args:
        lora, sequences: Adapters, and how many choose one.
        before: Whether these are sequences of before the run.
    """
    random = np.random.default_rng((SEED, int(before)))
    ends = np.cumsum(popularity(lora.adapters, lora.adapter_skew))
    out: Integers = np.searchsorted(ends, random.random(sequences) * ends[-1], side="right")
    return out


def missed(lora: Lora, asked: Integers) -> NDArray[np.bool_]:
    """Whether each request finds its adapter away, the last ones used being kept: LRU.

    The device has been in use before the first of them.

    Args:
        lora: Adapters, of which some are kept.
        asked: Adapter of each request, in order of arrival. [1]
    """
    there: OrderedDict[int, None] = OrderedDict()
    before = chosen(lora, WARM * lora.adapters, before=True)
    out = np.zeros(len(asked), np.bool_)
    for place, adapter in enumerate([*before.tolist(), *asked.tolist()], -len(before)):
        if adapter in there:
            there.move_to_end(adapter)
            continue
        there[adapter] = None
        if len(there) > lora.kept:
            there.popitem(last=False)
        if place >= 0:
            out[place] = True
    return out


def waited(served: Served, lora: Lora, load_s: float, sessions: Integers) -> Served:
    """Requests of one replica, those later whose adapter had to be loaded.

    Loading goes on beside the steps of others, and shifts the request as a whole: its place in the
    steps is taken to be the same.

    Args:
        served: Requests as served with all adapters there.
        lora, load_s: Adapters, and the time to load one. [s]
        sessions: Session of each, all of whose requests have one adapter. [1]
    """
    adapters = chosen(lora, int(sessions.max()) + 1)[sessions]
    order = np.argsort(served.arrival, kind="stable")
    away = np.zeros(len(served), np.bool_)
    away[order] = missed(lora, adapters[order])
    times = ("admitted", "first_token", "finish")
    totals = replace(served.totals, adapter_loads=int(away.sum()))
    later = {name: getattr(served, name) + load_s * away for name in times}
    return replace(served, **later, totals=totals)
