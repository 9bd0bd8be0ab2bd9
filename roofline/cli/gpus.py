"""``roofline gpus``: the machines of the catalog, and where each figure comes from."""

from typing import Annotated

import typer

from roofline.cli import completing
from roofline.cli.render import Format, clean, echo, print_columns, print_json, print_rows

app = typer.Typer(
    help="List the GPUs of the catalog, or show one with the source of every figure.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]


@app.callback()
def gpus(context: typer.Context, format_: FormatOption = Format.TABLE) -> None:
    """List the GPUs of the catalog, or show one with the source of every figure."""
    if context.invoked_subcommand is not None:
        return
    from roofline.hardware.describe import listing
    from roofline.units import show, show_binary

    table = listing()
    if format_ is Format.JSON:
        print_json("gpus", {"gpus": list(table.rows())})
        return
    if format_ is Format.CSV:
        print_rows(
            [["" if v is None else str(v) for v in row.values()] for row in table.rows()],
            list(table.columns),
            format_,
        )
        return
    rows = [
        [
            row["name"],
            show_binary(row["memory"]),
            show(row["bandwidth"], "B/s"),
            _optional(row["dense16"], "FLOP/s"),
            _optional(row["dense8"], "FLOP/s"),
            f"{row['ridge']:.0f}" if row["ridge"] else "",
            _optional(row["power"], "W"),
            f"{row['price']:.2f}" if row["price"] else "",
        ]
        for row in table.rows()
    ]
    header = ["GPU", "memory", "bandwidth", "16-bit", "8-bit", "ridge", "power", "$/h"]
    print_rows(rows, header, format_)
    echo("Dense rates; assumed prices. roofline gpus show NAME has the source of each figure.")


def _optional(value: float | None, unit: str) -> str:
    from roofline.units import show

    return show(value, unit) if value else ""


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(help="GPU by name, or a YAML file.", autocompletion=completing.gpus),
    ],
    format_: FormatOption = Format.TABLE,
) -> None:
    """Show every figure of a GPU, with its source."""
    from roofline.bench.shipping.coverage import measured
    from roofline.cost.calibration.kernel import devices
    from roofline.hardware import catalog
    from roofline.hardware.describe import describe

    gpu = catalog.gpu(name)
    table, kernels = describe(gpu), measured(gpu.name)
    if format_ is Format.JSON:
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
    if format_ is Format.TABLE:
        echo(clean(f"{gpu.name}: {gpu.title} ({gpu.vendor} {gpu.architecture})\n"))
    print_columns(table, format_)
    if format_ is not Format.TABLE:
        return
    if not len(kernels):
        _, *others = devices(gpu)
        like = f"its times are carried from {others[0]}, at its own rates" if others else ""
        echo(f"\nNo kernel of it was measured: {like or 'its times are the datasheet rates'}.")
        return
    echo("\nMeasured kernels; errors in percent on shapes that the fit did not see:\n")
    rows = [
        [
            row["provider"],
            row["kind"],
            row["variant"],
            f"{row['rows']:,}",
            f"{100 * row['median']:.1f}",
            f"{100 * row['p90']:.0f}",
            f"{100 * row['inside']:.0f}",
        ]
        for row in kernels.rows()
    ]
    header = ["engine", "kernel", "formats", "rows", "median", "p90", "inside"]
    print_rows(rows, header, format_)
