"""``roofline parse-command``: what a command of a serving engine deploys."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from roofline import api
from roofline.cli import completing, options
from roofline.cli.render import OutputFormat, echo, print_columns, print_json, say
from roofline.view.terminal import clean, page_width, wrap

_MOST_STDIN: Final = 2**20 + 1
_FILES: Final = (".yaml", ".yml", ".sh", ".txt")


def parse_command(
    command: Annotated[
        str,
        typer.Argument(
            help="A command in quotes; a file with one, a Kubernetes manifest, a Ray Serve "
            "configuration or a Docker Compose file; - for stdin."
        ),
    ],
    gpu: options.Gpu = None,
    node: options.Node = None,
    model: Annotated[
        str,
        typer.Option(
            help="Network, where the checkpoint's name is not in the catalog.",
            autocompletion=completing.models,
        ),
    ] = "",
    format_: options.FormatOf = OutputFormat.TABLE,
) -> None:
    """Say what a command of a serving engine deploys, and how roofline is asked the same."""
    text, source = _text(command)
    result = api.parse_command(text, gpu, node=node, model=model, source=source)
    settings, unused = result.tables["settings"], result.tables["unused"]
    if format_ is OutputFormat.JSON:
        answer = {**result.metadata, "settings": list(settings.rows()), "unused": unused["flag"]}
        print_json("parse-command", answer, result.notes)
        return
    print_columns(settings, format_)
    if format_ is OutputFormat.CSV:
        return
    if len(unused):
        flags = ", ".join(unused["flag"])
        echo(wrap(f"not used by the model: {flags}") + "\n")
    for name in ("analyze", "simulate"):
        line = result.metadata[name]
        wide = len(line) > page_width()
        echo(clean(line.replace(" --", " \\\n  --") if wide else line))
    for note in result.notes:
        say(f"note: {note}")


def _text(command: str) -> tuple[str, str]:
    """The command itself, or what the file or standard input holds; what errors call it."""
    from roofline import schema
    from roofline.errors import InputError

    if command == "-":
        return schema.decode(sys.stdin.buffer.read(_MOST_STDIN), "<stdin>"), "<stdin>"
    path = Path(command) if len(command) < 4096 and "\n" not in command else None
    if path is None or path.suffix.lower() not in _FILES or " " in command.strip():
        return command, "command"
    try:
        return schema.decode(path.read_bytes()[:_MOST_STDIN], command), command
    except OSError as error:
        raise InputError(
            f"{command:.80} cannot be read: {error.strerror}", hint="give a file, or a command"
        ) from None
