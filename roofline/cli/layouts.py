"""``roofline layouts``: every way to lay a network out on a number of GPUs, best first."""

from typing import Annotated

import typer

from roofline.api.parameters import Layouts
from roofline.cli import options
from roofline.cli.answer import answered
from roofline.cli.render import plain_values


@options.takes(Layouts)
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
