"""``roofline scoreboard``: predictions beside measured rows and well-known published results."""

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from roofline.cli import options
from roofline.cli.render import OutputFormat, plain_values, print_answer, print_columns, say
from roofline.cli.report import write_page
from roofline.table import Result, Table, table

MANY: Final = 100
"""Rows from which on a note says that they are being predicted."""
QUANTITIES: Final = ("measured", "predicted", "low", "high")


def scoreboard(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="Measured rows of serving, as validate --kind e2e reads them."),
    ] = None,
    where: Annotated[str, typer.Option(help="Rows to take: gpu=h100_sxm,engine=vllm|sglang.")] = "",
    quality: Annotated[
        str, typer.Option(help="Rows of this quality, where the file says it; all for every row.")
    ] = "ok",
    cross_validate: Annotated[
        bool,
        typer.Option(
            "--cross-validate", help="Predict each row by constants of other GPUs and networks."
        ),
    ] = False,
    date: Annotated[
        str, typer.Option(metavar="YYYY-MM-DD", help="Date of the scoreboard; else today.")
    ] = "",
    report: options.Report = None,
    format_: options.FormatOf = OutputFormat.TABLE,
) -> None:
    """Score predictions against measured rows, and against published results with their sources.

    Without FILE it shows the published results alone.
    """
    from roofline.api import scores

    result = scores.scoreboard(
        file,
        where=where,
        quality=quality,
        cross_validate=cross_validate,
        date=date,
        progress=_say_rows,
    )
    write_page(context, result, report)
    if format_ is OutputFormat.CSV:
        print_columns(_rows(result), format_, "")
    else:
        print_answer("scoreboard", result, format_, partial(plain_values, result), "")


def _say_rows(rows: int) -> None:
    if rows >= MANY:
        say(f"predicting {rows:,} rows, some fifty a second")


def _rows(result: Result) -> Table:
    """Figures of rows and of published results, one a line, in base units."""
    names = (
        "set", "name", "engine", "gpu", "gpus", "network", "metric", "unit", "per", *QUANTITIES,
        "error", "inside", "rule", "reason", "why not", "source",
    )  # fmt: skip
    rows = [
        {**entry, "set": "file", "name": entry["row"], "per": entry["gpus"]}
        for entry in result.tables["scores"].rows()
    ]
    rows += [
        {**entry, "set": "published", "network": entry["model"], "source": entry["url"]}
        for entry in result.tables["published_results"].rows()
    ]
    cells = [{name: entry.get(name) for name in names} for entry in rows]
    return table(cells, dict.fromkeys(names, ""))
