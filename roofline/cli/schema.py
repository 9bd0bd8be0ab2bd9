"""``roofline schema``: the JSON Schema of scenario files, for editors."""

import json
from pathlib import Path
from typing import Annotated

import typer

from roofline.cli.render import echo
from roofline.view.terminal import clean


def schema(
    out: Annotated[Path | None, typer.Option(help="File to write; else it is printed.")] = None,
) -> None:
    """Print the JSON Schema (draft 2020-12) of scenario files."""
    from roofline.files import text_output
    from roofline.study.scenario.files import schema as published

    text = json.dumps(published(), indent=2, ensure_ascii=False)
    if out is None:
        echo(text)
        return
    with text_output(out) as file:
        file.write(text + "\n")
    typer.echo(f"wrote {clean(str(out))}", err=True)
