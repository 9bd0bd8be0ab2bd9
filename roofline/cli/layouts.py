"""``roofline layouts``: every way to lay a network out on a number of GPUs, best first."""

from functools import partial
from typing import Annotated

import typer

from roofline import api
from roofline.api.parameters import Layouts
from roofline.cli import options
from roofline.cli.page import write_page
from roofline.cli.render import Format, plain_values, print_answer


@options.takes(
    Layouts,
    "model gpu gpus node objective top batch prefill_batch prompt prefix_hit output "
    "weights kv engine calibration kv_cache attention mask mla routing_skew expert_loads "
    "ring_attention overlap cuda_graphs memory_utilization price static report format_",
)
def layouts(
    context: typer.Context,
    top: Annotated[int, typer.Option(min=0, help="Layouts to print; 0 for all.")] = 20,
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Price every layout of a network on a number of GPUs, and say which is best for what."""
    from roofline.cli.inputs import asked

    result = api.layouts(**asked(context, Layouts))
    write_page(context, result, report)
    few = min(top, result.metadata["fitting"] or top)
    values = partial(plain_values, result)
    print_answer("layouts", result, format_, values, "layouts", few={"layouts-table": few})
    if not result.metadata["fits"]:
        raise typer.Exit(1)
