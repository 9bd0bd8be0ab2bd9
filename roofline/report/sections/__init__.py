"""Sections of the page: one module each, found by listing this folder.

A module has ``ORDER``, a number that says where it stands, and ``build(result)``, which returns a
`Block`, or None where the result has nothing for it.
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from roofline.table import Result
from roofline.view.block import Block

Builder = Callable[[Result], Block | None]


def builders() -> tuple[Builder, ...]:
    """Builders of all sections, in the order of the page."""
    modules = [import_module(f"{__name__}.{entry.name}") for entry in iter_modules(__path__)]
    ordered = sorted(modules, key=lambda module: (module.ORDER, module.__name__))
    return tuple(module.build for module in ordered)


def blocks(result: Result) -> list[Block]:
    """Sections of a result, in the order of the page."""
    return [block for build in builders() if (block := build(result))]
