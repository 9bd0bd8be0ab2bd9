"""``roofline report``: results that were saved, as one HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli.page import write_page


def report(
    context: typer.Context,
    results: Annotated[
        list[Path],
        typer.Argument(help="result.parquet of a sweep, several to compare them; or a plan.json."),
    ],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
) -> None:
    """Write the page of a sweep or of a plan: one file that asks the network for nothing."""
    from roofline.api.saved import as_saved, read_result, together

    with as_saved(*results):
        write_page(context, together([read_result(path) for path in results]), out)
