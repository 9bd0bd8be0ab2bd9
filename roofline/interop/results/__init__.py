"""Results of benchmarks that other tools wrote: what was run, and each measured figure."""

from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from roofline.errors import DocumentError, UnknownNameError
from roofline.interop.results.content import content_of
from roofline.interop.results.run import (
    MeasuredFigure,
    MeasuredRun,
    ResultFormat,
    RunOptions,
    RunScenario,
)
from roofline.records import replace

__all__ = [
    "MeasuredFigure",
    "MeasuredRun",
    "RunOptions",
    "RunScenario",
    "known_formats",
    "read_results",
]


@cache
def known_formats() -> tuple[ResultFormat, ...]:
    """Every `ResultFormat` in the modules of the folder ``formats``, in order of their names."""
    folder = f"{__name__}.formats"
    names = sorted(found.name for found in iter_modules(import_module(folder).__path__))
    modules = [import_module(f"{folder}.{name}") for name in names]
    return tuple(
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, ResultFormat)
    )


def read_results(path: Path, *, format_: str = "") -> tuple[MeasuredRun, ...]:
    """Runs of a file that a benchmark wrote, by the name of its format or as the content tells.

    DocumentError where the file cannot be read as that; UnknownNameError for no such format.
    """
    known = {each.name: each for each in known_formats()}
    listed = ", ".join(known)
    if format_ and format_ not in known:
        raise UnknownNameError(f"no format is called {format_!r:.40}", hint=f"there are {listed}")
    content = content_of(path)
    recognised = (each for each in known.values() if each.recognises(content))
    found = known[format_] if format_ else next(recognised, None)
    if found is None:
        message = "no known benchmark writes files like this"
        raise content.error(message, f"`format_` forces one of {listed}")
    runs = tuple(found.read(content))
    if not runs:
        raise content.error(
            f"there is no run in it, read as {found.title}",
            "check that a request was answered; `format_` forces another format",
        )
    for run in runs:
        if not run.measurements:
            raise DocumentError(
                "nothing is measured in it",
                hint="check that requests were answered",
                where=run.where,
            )
    return tuple(replace(run, format=found.name) for run in runs)
