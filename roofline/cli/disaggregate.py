"""``roofline disaggregate``: prefill and decode on pools of their own, and the ratio of the two."""

import typer

from roofline.api.parameters import Pools
from roofline.cli import options
from roofline.cli.answer import answered


@options.takes(
    Pools,
    derives="ttft, prefill, tpot, latency, kv, transfer, ratio, throughput, memory, cost, energy",
)
def disaggregate(context: typer.Context) -> None:
    """Price prefill and decode pools: how many of each, TTFT, TPOT, transfer, price.

    Exits with 1 if a pool does not fit.
    """
    answered(context, Pools)
