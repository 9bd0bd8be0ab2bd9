"""``roofline report``: results that were saved, as one HTML page; the page of any command."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from roofline.cli.flags import in_flags
from roofline.records import replace
from roofline.table import Result
from roofline.view.terminal import clean


def report(
    context: typer.Context,
    results: Annotated[
        list[Path],
        typer.Argument(help="result.parquet of a sweep, several to compare them; or a plan.json."),
    ],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
) -> None:
    """Write the page of a sweep or of a plan: one file that asks the network for nothing."""
    from roofline.api.saved import as_saved, merge_results, read_result

    with as_saved(*results):
        write_page(context, merge_results([read_result(path) for path in results]), out)


def write_page(context: typer.Context, result: Result, path: Path | None) -> None:
    """Write the page of a result with the command that made it; nothing if no file was named."""
    if path is None:
        return
    from roofline.report import write

    command = shlex.join(["roofline", *(context.obj or sys.argv[1:])])
    write(in_flags(replace(result, metadata={**result.metadata, "command": command})), path)
    typer.echo(f"wrote {clean(str(path))}", err=True)
