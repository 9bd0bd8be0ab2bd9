"""``roofline analyze``: what a deployment costs, what binds it, and why."""

from typing import Annotated

import typer

from roofline.api.parameters import Analysis
from roofline.cli import options
from roofline.cli.answer import answered, print_result
from roofline.cli.page import write_page
from roofline.cli.render import Format


@options.takes(
    Analysis,
    "model gpu node gpus layout objective tp pp ep dp cp sp stages microbatches "
    "ring_attention overlap offload_weights offload_kv offload_to prefetch batch "
    "prefill_batch prompt prefix_hit output weights kv engine convention calibration "
    "kv_cache attention mask mla routing_skew expert_loads denoising_steps block "
    "cuda_graphs memory_utilization price explain report format_",
)
def analyze(
    context: typer.Context,
    explain: Annotated[
        str | None,
        typer.Option(
            help="Derive ttft, tpot, latency, throughput, memory, weights, kv, cost, energy, ridge."
        ),
    ] = None,
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Say what a static batch costs: memory, TTFT, TPOT, throughput, price, and what binds it."""
    from roofline import api
    from roofline.cli.inputs import asked

    result = api.analyze(**asked(context, Analysis))
    derivation = api.explain(result, explain) if explain else None
    if report is not None:
        from roofline.api.exploring import around

        write_page(context, around(result), report)
    answered("analyze", result, derivation, format_, print_result)
