"""``roofline models``: the networks of the catalog, and what any config.json amounts to."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli import options
from roofline.cli.flags import aliases_of
from roofline.cli.render import (
    OutputFormat,
    echo,
    print_columns,
    print_grid,
    print_json,
    print_notes,
    print_rows,
)
from roofline.table import table
from roofline.units import show as quantity
from roofline.view.block import Cell
from roofline.view.grids import grid
from roofline.view.terminal import clean

if TYPE_CHECKING:
    from roofline.model.architecture import Architecture

app = typer.Typer(
    help="List the networks of the catalog, or show the counts of one.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def models(context: typer.Context, format_: options.FormatOf = OutputFormat.TABLE) -> None:
    """List the networks of the catalog, or show the counts of one."""
    if context.invoked_subcommand is not None:
        return
    from roofline.model import catalog, parameters

    found = [catalog.architecture(name) for name in (*catalog.names(), *catalog.patched())]
    rows = [
        {
            "name": network.name,
            "model_type": network.model_type,
            "parameters": parameters.total(network),
            "layers": len(network.layers),
            "d_model": network.d_model,
            "kv_bytes_per_token": parameters.kv_bytes_per_token(network),
            "max_context": network.max_context,
        }
        for network in found
    ]
    if format_ is OutputFormat.JSON:
        print_json("models", {"models": rows})
        return
    every = table(rows, {"kv_bytes_per_token": "B"})
    if format_ is OutputFormat.CSV:
        print_columns(every, format_, "")
        return
    columns = (
        "name=Network, parameters, kv_bytes_per_token, max_context=Context, layers, d_model=Width, "
        "model_type=Type"
    )
    short = {"parameters": lambda row: Cell(quantity(row["parameters"], ""))}
    made = grid("models", "", every, columns, most=len(every), writers=short)
    print_grid(made, format_, listed=True)


@app.command()
def show(
    name: options.Model,
    kv: Annotated[
        str, typer.Option("--kv", *aliases_of("kv"), help="Format of the KV cache.")
    ] = "bf16",
    format_: options.FormatOf = OutputFormat.TABLE,
) -> None:
    """Show parameters by part, KV cache and weights of a network."""
    from roofline.cli.inputs import network as find

    network = find(name)
    counts = summary(network, kv)
    if format_ is OutputFormat.JSON:
        print_json("models show", counts, network.notes)
        return
    if format_ is OutputFormat.CSV:
        print_rows([[key, str(v)] for key, v in _flat(counts)], ["figure", "value"], format_)
        return
    _print(network, counts, kv, format_)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Hub id, OWNER/NAME.", metavar="{name}")],
) -> None:
    """Read the config and the size of a checkpoint from the hub, once, and keep them.

    Nothing else of roofline asks the network for anything. Afterwards the id is a network's name.
    """
    from roofline.model.catalog import architecture
    from roofline.model.fetching import fetch as fetched

    folder = fetched(name)
    echo(f"{clean(name)} is in {folder}: roofline models show {clean(name)}")
    print_notes(architecture(name).notes, OutputFormat.TABLE)


def summary(network: "Architecture", kv: str = "bf16") -> dict[str, Any]:
    """Counts of a network as JSON carries them; cache in the format given, state in its own."""
    from roofline.model import parameters, precision

    width = precision.named(kv).width

    def exact(elements: int) -> int | float:
        size = elements * width
        return int(size) if size == int(size) else size

    return {
        "name": network.name,
        "model_type": network.model_type,
        "parameters": parameters.total(network),
        "parameters_by_part": parameters.parts(network),
        "active_parameters": parameters.active(network),
        "other_parameters": dict(network.other_parameters),
        "kv_format": kv,
        "kv_bytes_per_token": exact(parameters.kv_elements_per_token(network)),
        "kv_bytes_per_token_beyond_window": exact(
            parameters.kv_elements_per_token(network, beyond_window=True)
        ),
        "index_bytes_per_token": parameters.index_bytes_per_token(network),
        "state_bytes_per_sequence": int(parameters.state_bytes_per_sequence(network)),
        "weight_bytes": parameters.weight_bytes(network),
        "weight_format": network.weight_format,
        "layers": len(network.layers),
        "d_model": network.d_model,
        "vocab": network.vocab,
        "max_context": network.max_context,
        "provenance": dict(network.provenance),
    }


def _flat(counts: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for key, value in counts.items():
        if isinstance(value, dict):
            out += _flat(value, f"{prefix}{key}.")
        else:
            out.append((prefix + key, value))
    return out


def _print(network: "Architecture", counts: dict[str, Any], kv: str, style: OutputFormat) -> None:
    if style is OutputFormat.TABLE:
        echo(clean(f"{network.name} ({network.model_type}), {counts['parameters']:,} parameters\n"))
    rows = [
        [part.replace("_", " "), f"{number:,}", f"{number / counts['parameters']:.1%}"]
        for part, number in counts["parameters_by_part"].items()
        if number
    ]
    rows.append(["total", f"{counts['parameters']:,}", "100.0%"])
    rows += [
        [f"beside it: {part}", f"{number:,}", ""]
        for part, number in counts["other_parameters"].items()
    ]
    print_rows(rows, ["parameters", "count", "share"], style, "Parameters by part")
    active = counts["active_parameters"]
    rows = [
        ["active, all", f"{active['all']:,}"],
        ["active, minus input embedding", f"{active['minus_input_embedding']:,}"],
        ["active, minus embeddings", f"{active['minus_embeddings']:,}"],
        [f"weights, {network.weight_format}", quantity(counts["weight_bytes"], "B", 4)],
        [f"KV cache per token, {kv}", f"{counts['kv_bytes_per_token']:,} B"],
        ["the same beyond every window", f"{counts['kv_bytes_per_token_beyond_window']:,} B"],
        ["index of sparse attention per token", f"{counts['index_bytes_per_token']:,} B"],
        ["state per sequence", f"{counts['state_bytes_per_sequence']:,} B"],
    ]
    print_rows(rows, ["", "amount"], style, "What it amounts to")
    rows = []
    for field, text in network.provenance.items():
        value, _, where = text.partition(", ")
        rows.append([field, value, where])
    print_rows(rows, ["field", "config", "where"], style, "Where it comes from")
    print_notes(network.notes, style)
