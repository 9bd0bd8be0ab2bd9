"""Command line: read arguments, ask one question of the API, print the answer.

Commands import what they need when they run, so that ``--help`` stays light.
"""

import gc
import os
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from roofline.cli.progress import end_progress
from roofline.cli.streams import open_streams
from roofline.cli.values import take_plain
from roofline.errors import BUG, ReaderLeftError, RooflineError, StoppedError
from roofline.notices import show_with
from roofline.version import __version__

COMMANDS: Final = (
    "analyze",
    "compare",
    "compare-measured",
    "scoreboard",
    "layouts",
    "disaggregate",
    "speculate",
    "paging",
    "simulate",
    "plan",
    "report",
    "serve-command",
    "parse-command",
    "sweep",
    "schema",
    "calibrate",
    "validate",
    "doctor",
    "gpus",
    "bench",
    "models",
)
"""Commands in the order of the help. Each is a module, which has an ``app`` where it has commands
below it, else a function of its name and perhaps an ``EPILOG``."""
ANSWERS: Final = ("analyze", "compare", "layouts", "disaggregate", "speculate", "paging")
"""Commands that ask one question and print the answer, all in one module."""

_UsageError = typer.BadParameter.__mro__[1]  # Typer carries its own copy of Click
_ClickError: Any = _UsageError.__mro__[1]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"roofline {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Predict and explain the cost of LLM inference: FLOPs, bytes, KV cache, TTFT, latency."""


def main() -> None:
    """Run a command; a user's mistake becomes two lines on stderr and an exit code."""
    # Nearly all that a command makes stays until it ends: to collect garbage sooner, or to take
    # everything apart at the end, takes a tenth of its time.
    gc.set_threshold(100_000)
    # Threads of OpenBLAS spin before they sleep: a tenth of a second, a third of an answer.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    open_streams()
    show_with(_say)
    try:
        code = run(sys.argv[1:])
    except Exception as error:
        code = _fail_by_bug(error)
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        # To make all commands with their options takes longer than most of them run.
        named = [name for name in COMMANDS if arguments[:1] == [name]]
        code = _commands(*named or COMMANDS)(
            arguments or ["--help"], prog_name="roofline", standalone_mode=False, obj=arguments
        )
        sys.stdout.flush()
    except RooflineError as error:
        return fail(error.told, error.hint, error.exit_code)
    except ReaderLeftError as error:
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return fail("interrupted", "run the command again", StoppedError.exit_code)
    except _ClickError as error:
        from roofline.cli.usage import told

        return fail(*told(error, arguments), 2)
    finally:
        end_progress()
    # Typer catches what Ctrl-C raises, and only gives its code.
    if code == StoppedError.exit_code:
        return fail("interrupted", "run the command again", code)
    return code if isinstance(code, int) else 0


@cache
def _commands(*names: str) -> Any:
    """Command line that has some of the commands, with their options."""
    from roofline.cli.help import CommandGroup, GroupedCommand, width
    from roofline.cli.options import with_options

    app = typer.Typer(
        name="roofline",
        cls=CommandGroup,
        context_settings={"max_content_width": width()},
        help=_root.__doc__,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    for name in names:
        function = name.replace("-", "_")
        module = import_module(f"roofline.cli.{'answer' if name in ANSWERS else function}")
        if hasattr(module, "app"):
            for each in module.app.registered_commands:
                each.cls = GroupedCommand
            app.add_typer(module.app, name=name, cls=CommandGroup)
        else:
            told = getattr(module, "EPILOG", None)
            app.command(cls=GroupedCommand, epilog=told)(with_options(getattr(module, function)))
    command = typer.main.get_command(app)
    take_plain(command)
    return command


def fail(message: str, hint: str, code: int) -> int:
    """Print an error and what to do about it, below what was told of progress."""
    from roofline.cli.flags import flags
    from roofline.view.terminal import clean, wrap

    end_progress()
    for word, text in (("error: ", flags(message)), ("hint: ", flags(hint))):
        shown = wrap(text, word, of=sys.stderr) if sys.stderr.isatty() else f"{word}{clean(text)}"
        typer.echo(shown, err=True)
    return code


def _say(text: str) -> None:
    from roofline.cli.render import say

    say(text)


def _fail_by_bug(error: Exception) -> int:
    """Print that an exception is a bug; its traceback is in a file, or above where none can be."""
    import shlex
    import tempfile
    import traceback

    trace = traceback.format_exc()
    command = shlex.join(["roofline", *sys.argv[1:]])
    said = f"{type(error).__name__}: {error}".partition("\n")[0][:200].removesuffix(": ")
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="roofline-bug-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(f"roofline {__version__}, Python {sys.version}\n{command}\n\n{trace}")
        where = f"the traceback is in {file.name}: report it with the command, {command}"
    except OSError:
        typer.echo(trace, err=True)
        where = f"report it with the lines above: {command}"
    return fail(f"this is a bug in roofline: {said}", where, BUG)
