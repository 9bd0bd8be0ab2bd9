"""``roofline gpus``: the machines of the catalog, and where each figure comes from."""

from typing import Annotated

import typer

from roofline.cli import completing, options
from roofline.cli.render import OutputFormat, echo, print_columns, print_grid, print_json
from roofline.view.grids import grid
from roofline.view.terminal import clean, wrap

app = typer.Typer(
    help="List the GPUs of the catalog, or show one with the source of every figure.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def gpus(context: typer.Context, format_: options.FormatOf = OutputFormat.TABLE) -> None:
    """List the GPUs of the catalog, or show one with the source of every figure."""
    if context.invoked_subcommand is not None:
        return
    from roofline.hardware.describe import listing

    table = listing()
    if format_ is OutputFormat.JSON:
        print_json("gpus", {"gpus": list(table.rows())})
        return
    if format_ is OutputFormat.CSV:
        print_columns(table, format_, "")
        return
    columns = (
        "name=GPU, memory, bandwidth, dense16=16-bit, dense8=8-bit, ridge=Ridge, power, price=Price"
    )
    print_grid(grid("gpus", "", table, columns), format_)
    echo(
        wrap("Dense rates; assumed prices. roofline gpus show NAME has the source of each figure.")
    )


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="GPU by name, or a YAML file.", autocompletion=completing.gpus)
    ],
    format_: options.FormatOf = OutputFormat.TABLE,
) -> None:
    """Show every figure of a GPU, with its source."""
    from roofline.bench.shipping.coverage import measured
    from roofline.cost.calibration.kernel import devices
    from roofline.hardware import catalog
    from roofline.hardware.describe import describe
    from roofline.hardware.engine import CDNA

    gpu = catalog.gpu(name)
    table, kernels = describe(gpu), measured(gpu.name)
    if format_ is OutputFormat.JSON:
        figures = list(table.rows())
        result = {
            "name": gpu.name,
            "title": gpu.title,
            "vendor": gpu.vendor,
            "figures": figures,
            "kernels": list(kernels.rows()),
        }
        print_json("gpus show", result)
        return
    if format_ is OutputFormat.TABLE:
        echo(clean(f"{gpu.name}: {gpu.title} ({gpu.vendor} {gpu.architecture})\n"))
    print_columns(table, format_)
    if format_ is not OutputFormat.TABLE:
        return
    if not len(kernels):
        _, *others = devices(gpu)
        like = "its times are the datasheet rates"
        if others:
            like = f"its times are carried from {others[0]}, at its own rates"
        elif gpu.architecture in CDNA:
            like = "under vLLM and SGLang its times are usual shares of the datasheet rates"
        echo(f"\nNo kernel of it was measured: {like}.")
        return
    title = "Measured kernels; errors on shapes that the fit did not see"
    columns = "provider=Engine, kind=Kernel, variant=Formats, rows, median, p90, inside"
    echo("")
    print_grid(grid("kernels", title, kernels, columns, most=len(kernels)), format_)
