"""``roofline disaggregate``: prefill and decode on pools of their own, and the ratio of the two."""

import typer

from roofline.api.parameters import Pools
from roofline.cli import options
from roofline.cli.answer import answered


@options.takes(
    Pools,
    "model prefill decode gpu node decode_gpu decode_node gpus over overlapped "
    "prefill_batch batch prompt prefix_hit output temperature top_k top_p weights kv engine "
    "calibration mla routing_skew expert_loads overlap cuda_graphs memory_utilization price "
    "explain report format_",
    derives="ttft, second_token, tpot, latency, kv, transfer, ratio, throughput, memory, "
    "cost, energy",
)
def disaggregate(context: typer.Context) -> None:
    """Price prefill and decode pools: how many of each, TTFT, TPOT, transfer, price.

    Exits with 1 if a pool does not fit.
    """
    answered(context, Pools)
