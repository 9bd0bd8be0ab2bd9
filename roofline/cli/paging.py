"""``roofline paging``: room of caches reserved whole, in pages, and in pages that are shared."""

import typer

from roofline.api.parameters import Paging
from roofline.cli import options
from roofline.cli.answer import answered


@options.takes(Paging, derives="reserved, power-of-two, exact, paged, shared, kv")
def paging(context: typer.Context) -> None:
    """Compare ways to give caches room: what of it holds tokens, how many sequences fit.

    Exits with 1 if not even one prompt fits.
    """
    answered(context, Paging, "schemes")
