"""``roofline layouts``: every way to lay a network out on a number of GPUs, best first."""

from typing import Annotated

import typer

from roofline.api.parameters import Layouts
from roofline.cli import options
from roofline.cli.answer import answered
from roofline.cli.render import plain_values


@options.takes(
    Layouts,
    "model gpu gpus node objective top batch prefill_batch prompt prefix_hit output "
    "temperature top_k top_p "
    "adapters lora_rank lora_targets max_loras adapter_skew "
    "weights kv engine calibration kv_cache attention fusion mask mla "
    "routing_skew expert_loads ring_attention overlap cuda_graphs memory_utilization price "
    "static report format_",
)
def layouts(
    context: typer.Context,
    top: Annotated[int, typer.Option(min=0, help="Layouts to print; 0 for all.")] = 20,
) -> None:
    """Price every layout of a network on a number of GPUs, and say which is best for what."""
    answered(
        context,
        Layouts,
        "layouts",
        values=plain_values,
        few=lambda result: {"layouts-table": min(top, result.metadata["fitting"] or top)},
    )
