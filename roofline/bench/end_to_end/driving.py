"""How benchmarks drove their clients: what a source does not say is read from its rows.

Lengths, the number of requests and who waits for whom decide TTFT by factors; a row of an unknown
source is read like those of the same engine.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.end_to_end.cases import Row
from roofline.cost.work import Array

Integers = NDArray[np.int64]
SEED: Final = 0


@dataclass(frozen=True, slots=True)
class Driven:
    """A closed loop of clients.

    Attributes
    ----------
    rounds
        Requests of each client. [1]
    shortest, longest
        Lengths of prompts and answers over the nominal one, uniform in between. [1]
    waiting
        Clients beyond the sequences that the engine was built to hold. [1]
    """

    rounds: float = 4.0
    shortest: float = 1.0
    longest: float = 1.0
    waiting: int = 0


MOST_ROUNDS: Final = 20.0
"""Requests of a client after which more of them change no mean. [1]"""
WIDEST: Final = 0.95
"""Most that lengths differ from their mean: no prompt and no answer is empty. [1]"""
SOURCES: Final = {"inferencemax": Driven(10.0, 0.8, 1.0)}
"""InferenceMAX: all clients start at once, 10 requests each, lengths from 0.8 to 1 of nominal, the
mean over all of them."""
ENGINES: Final = {
    "vllm": Driven(10.0, 0.97, 1.03),
    "trtllm": Driven(10.0, 0.9, 1.1),
    "sglang": Driven(4.0),
}
"""Of other sources, by profile. Equal lengths keep the burst of the start together in every round.
Inferred readings."""
LATE: Final = ("trtllm", "1.0.")
"""Profile and release whose TTFT has the time in which one of the C slots becomes free, as with one
client more than slots. An inferred reading."""
USUAL: Final = Driven(10.0, 0.97, 1.03)


def driven(row: Row, engine: str) -> Driven:
    """How the clients of a row were driven.

    Parameters
    ----------
    row
        Of a closed loop.
    engine
        Name of its profile.
    """
    how = SOURCES.get(row.family) or ENGINES.get(engine, USUAL)
    late = row.family not in SOURCES and engine == LATE[0] and row.version.startswith(LATE[1])
    how = replace(how, waiting=1) if late else how
    if row.requests and row.batch and row.family not in SOURCES:
        how = replace(how, rounds=min(row.requests / row.batch, MOST_ROUNDS))
    if row.spread is not None and row.family not in SOURCES:
        width = min(row.spread, WIDEST)
        how = replace(how, shortest=1.0 - width, longest=1.0 + width)
    return how


def arrivals(rate: float, cv: float, number: int) -> Array:
    """Times at which requests are sent, the first at once. [s]

    Parameters
    ----------
    rate, cv
        Requests a second, and the standard deviation of their gaps over the mean: 0 even, 1
        Poisson. [1/s]
    number
        Requests. [1]
    """
    gaps = np.full(number, 1.0 / rate)
    if cv > 0:
        shape = cv**-2.0
        gaps = np.random.default_rng(SEED).gamma(shape, 1.0 / (rate * shape), number)
    sent: Array = np.cumsum(gaps) - gaps[0]
    return sent


@lru_cache(maxsize=4096)
def lengths(isl: float, osl: float, number: int, how: Driven) -> tuple[Integers, Integers]:
    """Tokens of the prompt and answer of each request, in order.

    Parameters
    ----------
    isl, osl
        Nominal lengths. [token]
    number
        Requests. [1]
    how
        The loop.
    """
    draw = np.random.default_rng(SEED)

    def drawn(nominal: float) -> Integers:
        if how.shortest == how.longest == 1.0:
            return np.full(number, max(int(nominal), 1))
        share = draw.uniform(how.shortest, how.longest, number)
        return np.maximum(np.round(nominal * share), 1.0).astype(np.int64)

    return drawn(isl), drawn(osl)
