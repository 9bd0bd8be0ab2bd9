"""``roofline analyze``: what a deployment costs, what binds it, and why."""

import typer

from roofline.api.parameters import Analysis
from roofline.cli import options
from roofline.cli.answer import answered
from roofline.table import Result


@options.takes(
    Analysis,
    "model gpu node gpus layout objective tp pp ep dp cp sp stages microbatches "
    "ring_attention overlap offload_weights offload_kv offload_to prefetch batch "
    "prefill_batch prompt prefix_hit output samples beams temperature top_k top_p "
    "adapters lora_rank lora_targets max_loras adapter_skew "
    "weights kv engine convention calibration profile kv_cache attention fusion mask mla "
    "routing_skew expert_loads denoising_steps block cuda_graphs memory_utilization price "
    "explain report format_",
    derives="ttft, tpot, latency, throughput, memory, weights, kv, cost, energy, ridge",
)
def analyze(context: typer.Context) -> None:
    """Say what a static batch costs: memory, TTFT, TPOT, throughput, price, and what binds it."""
    answered(context, Analysis, page=_with_others)


def _with_others(result: Result) -> Result:
    """The result with configurations around it, which only the page has."""
    from roofline.api.exploring import around

    return around(result)
