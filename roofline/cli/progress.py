"""The line of a terminal that says how far something is."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.live import Live

_LINES: "list[Live]" = []
"""One, or none."""


def print_progress(text: str, *, last: bool = False, logged: bool = False) -> None:
    """Print how far something is to stderr: on a terminal in place of what was said before.

    Elsewhere lines are printed only if they are to be ``logged``. The ``last`` line stays.
    """
    from roofline.view.terminal import clean, wrap

    if last or not sys.stderr.isatty():
        end_progress()
        if logged or sys.stderr.isatty():
            sys.stderr.write(wrap(text, of=sys.stderr) + "\n")
        return
    from rich.text import Text

    if not _LINES:
        _LINES.append(_line())
    _LINES[0].update(Text(clean(text), no_wrap=True, overflow="ellipsis"), refresh=True)


def end_progress() -> None:
    """Take the line away, if there is one."""
    while _LINES:
        _LINES.pop().stop()


def _line() -> "Live":
    """A line that no thread renews: a process that is forked meanwhile would wait for its lock."""
    from rich.console import Console
    from rich.live import Live

    line = Live(
        console=Console(file=sys.stderr),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    line.start()
    return line
