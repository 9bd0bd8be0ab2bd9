"""How benchmarks drove their clients: what a source does not say is read from its rows.

Lengths, the number of requests and who waits for whom decide TTFT by factors; a row of an unknown
source is read like those of the same engine.
"""

from dataclasses import dataclass
from typing import Final

from roofline.bench.end_to_end.cases import Row
from roofline.hardware.engine import engine
from roofline.serving.traffic.arrivals import Arrivals, Bursty, Closed, Even, Poisson
from roofline.serving.traffic.lengths import Constant, Lengths, Uniform
from roofline.serving.traffic.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading of how a closed loop of clients was driven."""

    rounds: float = 4.0
    """Requests of each client. [1]"""
    shortest: float = 1.0
    longest: float = 1.0
    """Lengths of prompts and answers over the nominal one, uniform in between. [1]"""
    pool: int = 0
    """Different prompts, asked again in turn, so that later ones find their KV cache; 0 where
    every prompt is its own. [1]"""


MOST_ROUNDS: Final = 20.0
"""Requests of a client after which more of them change no mean. [1]"""
WIDEST: Final = 0.95
"""Most that lengths differ from their mean: no prompt and no answer is empty. [1]"""
SENT: Final = 1000
"""Requests at a rate, or of a full server, where nobody says how many. [1]"""
SOURCES: Final = {"inferencemax": Reading(10.0, 0.8, 1.0)}
"""InferenceMAX: all clients start at once, 10 requests each, lengths from 0.8 to 1 of nominal, the
mean over all of them."""
LAB: Final = "nvidia-dynamo-lab"
TEMPLATE: Final = Reading(20.0, pool=100)
"""AIPerf as the template of this lab's repository runs it: 20 requests for each client, all of one
length, from the 100 prompts that AIPerf makes unless told otherwise. Whether a cache was on is not
stated, and of TensorRT-LLM the template turns it off."""
THOUSAND: Final = 1000.0
"""The template asks for whole thousands of tokens; older rows, of another tool, for powers of
two."""
ENGINES: Final = {
    "vllm": Reading(10.0, 0.97, 1.03),
    "trtllm": Reading(10.0, 0.9, 1.1),
    "sglang": Reading(4.0),
}
"""Readings of other sources, by engine. Equal lengths keep the burst together in every round.
Inferred readings."""
LATE: Final = "trtllm-1.0"
"""Engine whose TTFT has the time in which one of the C slots becomes free, as with one
client more than slots. An inferred reading."""
USUAL: Final = Reading(10.0, 0.97, 1.03)


def unsure(row: Row) -> bool:
    """Whether it is not known how a row's prompts hit a cache; constants are not fitted to it."""
    return row.family == LAB and row.isl % THOUSAND == 0 and row.mode == "steady_concurrency"


def reading(row: Row) -> Reading:
    """Reading of a row's clients: as its source says, else as rows of its engine were driven."""
    served = engine(row.case.engine)
    how = SOURCES.get(row.family) or ENGINES.get(served.family or served.name, USUAL)
    if unsure(row):
        how = TEMPLATE
    rounds = (
        min(row.requests / row.batch, MOST_ROUNDS) if row.requests and row.batch else how.rounds
    )
    if row.lengths is not None:
        return Reading(rounds, *row.lengths, how.pool)
    if row.spread is None or row.family in SOURCES:
        return Reading(rounds, how.shortest, how.longest, how.pool)
    width = min(row.spread, WIDEST)
    return Reading(rounds, 1.0 - width, 1.0 + width, how.pool)


def waiting_clients(row: Row) -> int:
    """Clients beyond the sequences that the engine was built to hold. [1]"""
    late = row.case.engine == LATE
    return int(late and row.mode == "steady_concurrency" and row.family not in SOURCES)


def traffic_of(row: Row) -> Traffic:
    """Requests of all replicas of a row, and how they come."""
    replicas = int(row.replicas)
    if row.mode == "steady_concurrency":
        how = reading(row)
        clients = int(row.batch + waiting_clients(row)) * replicas
        return Traffic(
            _lengths(row.isl, how),
            _lengths(row.osl, how),
            Closed(clients),
            max(int(int(row.batch) * how.rounds), 1) * replicas,
            pool=how.pool,
        )
    equal = Reading()
    prompt, output = _lengths(row.isl, equal), _lengths(row.osl, equal)
    if row.mode == "steady_rate":
        number = int(row.requests) or SENT
        return Traffic(prompt, output, _arrivals(row.rate * replicas, row.cv), number * replicas)
    number = int(row.requests or row.batch) or SENT
    return Traffic(prompt, output, Closed(number * replicas), number * replicas)


def _lengths(nominal: float, how: Reading) -> Lengths:
    """Lengths around a nominal one. [token]"""
    low, high = (max(round(nominal * share), 1) for share in (how.shortest, how.longest))
    return Constant(low) if low == high else Uniform(low, high)


def _arrivals(rate: float, cv: float) -> Arrivals:
    if cv == 0:
        return Even(rate)
    return Poisson(rate) if cv == 1 else Bursty(rate, cv)
