"""The same server once more, as plainly as can be: lists, sets and dicts.

It shares no code with the simulator but the records of what is asked.
"""

from collections.abc import Sequence
from typing import Any

from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import Server
from tests.serving.simulate.reference_batches import Batches
from tests.serving.simulate.reference_steps import Outcome, Reference


def pooled_reference(
    given: Sequence[Requests], prices: StepPrices, server: Server, concurrency: Sequence[int]
) -> list[Outcome]:
    """Replicas with one pool of prefixes: the one whose next step begins first takes it."""
    every = [
        Reference(own, prices, server, clients)
        for own, clients in zip(given, concurrency, strict=True)
    ]
    for one in every[1:]:
        one.disk = every[0].disk
    left = list(every)
    while left:
        one = min(left, key=lambda each: each.now)
        if not one.goes_on():
            left.remove(one)
    return [one.outcome for one in every]


def reference(
    given: Requests, prices: StepPrices, server: Server, concurrency: int = 0, **driven: Any
) -> Outcome:
    """Serve requests, all of them."""
    one_at_a_time = Reference(given, prices, server, concurrency, **driven)
    if server.policy in ("static", "packed", "dynamic"):
        return Batches(one_at_a_time).run()
    return one_at_a_time.run()
