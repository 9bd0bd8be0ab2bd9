"""``roofline compare``: variants of a deployment side by side, and what each change moved."""

from typing import Any

import typer

from roofline.api.parameters import Comparison
from roofline.cli import options
from roofline.cli.answer import answered
from roofline.table import Result


@options.takes(Comparison)
def compare(context: typer.Context) -> None:
    """Price variants beside a base and say what each change moved and why, not how well it answers.

    Exits with 1 if neither the base nor any variant fits.
    """
    answered(context, Comparison, "variants", values=_values)


def _values(result: Result) -> dict[str, Any]:
    """Base and variants with factors and sentence in each; training where it was asked for."""
    factors = dict(enumerate(result.tables["factors"].rows(), 1))
    why = result.tables["why"]["why"]
    variants: list[dict[str, Any]] = list(result.tables["variants"].rows())
    for number, row in factors.items():
        row.pop("variant")
        variants[number] |= {"factors": row, "why": why[number - 1]}
    base, *others = variants
    out: dict[str, Any] = {**result.metadata, "base": base, "variants": others}
    if "training" in result.tables:
        out["training"] = list(result.tables["training"].rows())
    return out
