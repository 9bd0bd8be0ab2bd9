"""Runs in a file of any known tool; the content of a file tells its format."""

from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from roofline.errors import DocumentError, UnknownNameError
from roofline.interop.results import formats as folder
from roofline.interop.results.content import Content, content_of
from roofline.interop.results.run import Format, MeasuredRun


@cache
def known_formats() -> tuple[Format, ...]:
    """Every `Format` in the modules of the folder ``formats``, in order of the modules' names."""
    names = sorted(found.name for found in iter_modules(folder.__path__))
    modules = [import_module(f"{folder.__name__}.{name}") for name in names]
    return tuple(
        found for module in modules for found in vars(module).values() if isinstance(found, Format)
    )


def read_results(path: Path, *, format_: str = "") -> tuple[MeasuredRun, ...]:
    """Runs of a file that a benchmark wrote, by the name of its format or as the content tells.

    DocumentError where the file cannot be read as that; UnknownNameError for no such format.
    """
    wanted = _named(format_) if format_ else None
    content = content_of(path)
    found = wanted or _recognised(content)
    runs = tuple(found.read(content))
    if not runs:
        raise content.error(
            f"there is no run in it, read as {found.title}",
            "check that a request was answered; --as forces another format",
        )
    for run in runs:
        if not run.measurements:
            raise DocumentError(
                "nothing is measured in it",
                hint="check that requests were answered",
                where=run.where,
            )
    return tuple(replace(run, format=found.name) for run in runs)


def _named(name: str) -> Format:
    known = {each.name: each for each in known_formats()}
    if name not in known:
        raise UnknownNameError(
            f"no format is called {name!r:.40}", hint=f"there are {', '.join(known)}"
        )
    return known[name]


def _recognised(content: Content) -> Format:
    for each in known_formats():
        if each.recognises(content):
            return each
    raise content.error(
        "no known benchmark writes files like this",
        f"--as forces one of {', '.join(each.name for each in known_formats())}",
    )
