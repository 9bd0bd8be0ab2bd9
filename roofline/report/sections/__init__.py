"""Sections of the page, found by listing this folder.

A module has ``build(result)``, which returns a `Section`, several, or None where the result has
nothing for it.
"""

from importlib import import_module
from pkgutil import iter_modules

from roofline.table import Result
from roofline.view.block import Section


def blocks(result: Result) -> list[Section]:
    """Sections of a result, in the order of the page."""
    found: list[Section] = []
    for entry in iter_modules(__path__):
        made = import_module(f"{__name__}.{entry.name}").build(result)
        found += [made] if isinstance(made, Section) else made or ()
    return sorted(found, key=lambda block: block.order)
