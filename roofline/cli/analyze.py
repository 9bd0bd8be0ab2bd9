"""``roofline analyze``: what a deployment costs, what binds it, and why."""

import typer

from roofline.api.parameters import Analysis
from roofline.cli import options
from roofline.cli.answer import answered
from roofline.table import Result


@options.takes(
    Analysis, derives="ttft, tpot, latency, throughput, memory, weights, kv, cost, energy, ridge"
)
def analyze(context: typer.Context) -> None:
    """Say what a static batch costs: memory, TTFT, TPOT, throughput, price, and what binds it."""
    answered(context, Analysis, page=_with_others)


def _with_others(result: Result) -> Result:
    """The result with configurations around it, which only the page has."""
    from roofline.api.exploring import around

    return around(result)
