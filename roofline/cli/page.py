"""The HTML page of any command: ``--report FILE``."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import typer

from roofline.cli.render import clean
from roofline.table import Result


def write_page(context: typer.Context, result: Result, path: Path | None) -> None:
    """Write the page of a result with the command that made it; nothing if no file was named."""
    if path is None:
        return
    from roofline import report

    command = shlex.join(["roofline", *(context.obj or sys.argv[1:])])
    report.write(replace(result, metadata={**result.metadata, "command": command}), path)
    typer.echo(f"wrote {clean(str(path))}", err=True)
