"""Clients of benchmarks, as a row says they were driven, else the harness of its source.

See `roofline.serving.traffic.harnesses`.
"""

from typing import Final

from roofline.bench.end_to_end.cases import Row
from roofline.hardware.engine import engine
from roofline.records import replace
from roofline.serving.traffic.harnesses import Harness, RowOrigin, harness_of
from roofline.serving.traffic.lengths import ConstantLength
from roofline.serving.traffic.traffic import Arrivals, Bursty, Closed, Even, Poisson, Traffic

CLOSED: Final = "steady_concurrency"
MOST_ROUNDS: Final = 20.0
"""Requests of a client after which more of them change no mean. [1]"""
WIDEST: Final = 0.95
"""Most that lengths differ from their mean: no prompt and no answer is empty. [1]"""
SENT: Final = 1000
"""Requests at a rate, or of a full server, where nobody says how many. [1]"""


def driver(row: Row) -> Harness:
    """Harness that drove the clients of a row."""
    served = engine(row.case.engine)
    engines = served.name, served.family
    return harness_of(RowOrigin(row.family, engines, row.isl, row.date, row.case.network))


def reading(row: Row) -> Harness:
    """Harness of a row with what the row itself says of its clients in place of its own."""
    how = driver(row)
    rounds = (row.requests or how.sent(row.batch)) / row.batch if row.batch else how.rounds
    how = replace(how, rounds=min(rounds, MOST_ROUNDS), requests=0)
    if row.lengths is not None:
        return replace(how, shortest=row.lengths[0], longest=row.lengths[1])
    if row.spread is None:
        return how
    width = min(row.spread, WIDEST)
    return replace(how, shortest=1.0 - width, longest=1.0 + width)


def unsure(row: Row) -> bool:
    """Whether it is not known how a row's prompts hit a cache; constants are not fitted to it."""
    return row.mode == CLOSED and driver(row).pool > 0


def waiting_clients(row: Row) -> int:
    """Clients beyond the sequences that the engine was built to hold. [1]"""
    return driver(row).late_clients if row.mode == CLOSED else 0


def traffic_of(row: Row) -> Traffic:
    """Requests of all replicas of a row, and how they come."""
    replicas = int(row.replicas)
    if row.mode == CLOSED:
        how = reading(row)
        clients = int(row.batch + how.late_clients) * replicas
        return Traffic(
            how.around(row.isl),
            how.around(row.osl),
            Closed(clients, how.ramp_s),
            max(int(int(row.batch) * how.rounds), 1) * replicas,
            pool=how.pool,
        )
    prompt, output = (ConstantLength(max(round(nominal), 1)) for nominal in (row.isl, row.osl))
    if row.mode == "steady_rate":
        number = int(row.requests) or SENT
        return Traffic(prompt, output, _arrivals(row.rate * replicas, row.cv), number * replicas)
    number = int(row.requests or row.batch) or SENT
    return Traffic(prompt, output, Closed(number * replicas), number * replicas)


def _arrivals(rate: float, cv: float) -> Arrivals:
    if cv == 0:
        return Even(rate)
    return Poisson(rate) if cv == 1 else Bursty(rate, cv)
