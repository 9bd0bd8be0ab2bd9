"""What a file format of results is: how it is told, and how it is read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from roofline.interop.results.content import Content
from roofline.interop.results.run import MeasuredRun


@dataclass(frozen=True, slots=True)
class Format:
    """A file format. A module of the folder ``formats`` has one, called ``FORMAT``."""

    name: str
    title: str
    """As ``--as`` takes it; the tool and what it writes."""
    recognises: Callable[[Content], bool]
    """Whether a file is of this format, by its content."""
    read: Callable[[Content], Iterable[MeasuredRun]]
    """The runs of a file."""
