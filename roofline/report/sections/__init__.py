"""Sections of the page, found by listing this folder.

A module has ``build(result)``, which returns a `Block`, several, or None where the result has
nothing for it.
"""

from importlib import import_module
from pkgutil import iter_modules

from roofline.table import Result
from roofline.view.block import Block


def blocks(result: Result) -> list[Block]:
    """Sections of a result, in the order of the page."""
    found: list[Block] = []
    for entry in iter_modules(__path__):
        made = import_module(f"{__name__}.{entry.name}").build(result)
        found += [made] if isinstance(made, Block) else made or ()
    return sorted(found, key=lambda block: block.order)
