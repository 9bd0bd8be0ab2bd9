"""Plans of changed questions beside the plan that was asked for, a row each."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from roofline.study.plan.figures import named, simulated
from roofline.study.plan.plan import Plan
from roofline.table import Table, table
from roofline.units import chance, counted

COLUMNS: Final = (
    *("gpu", "gpus", "shape", "weights", "usd_per_hour", "usd_per_mtok", "ttft_s", "tpot_s"),
    "probability",
)
"""Columns of a plan's figures. [1] [$/h] [$] [s]"""
KERNELS: Final = "measured kernels"
BOUND: Final = "assumed: a bound at published rates, no forecast"
KNOWN: Final = {
    "interpolated": KERNELS,
    "assumed": "usual shares of published rates, assumed",
    "datasheet": BOUND,
}
"""Grounds of a plan as the table names them, by the basis of its deployment."""


class WhatIf(Struct, frozen=True):
    """A plan of a changed question."""

    change: str
    """Changes, as they were asked; empty for the plan that was asked for."""
    plan: Plan | None
    """Its plan; None where it cannot be asked."""
    refusal: str = ""
    """Reason why it cannot."""


def tabulated(every: Sequence[WhatIf]) -> Table:
    """The cheapest deployment of every question, the one that was asked for first.

    Prices of other GPUs are those that were given, or the catalog's assumed ones.
    """
    base = every[0].plan
    assert base is not None, "the plan that was asked for comes first"
    rows = [{"change": each.change or "as asked", **_figures(each, base)} for each in every]
    units = {"usd_per_hour": "$/h", "usd_per_mtok": "$", "ttft_s": "s", "tpot_s": "s"}
    return table(rows, units)


def _figures(each: WhatIf, base: Plan) -> dict[str, Any]:
    """Figures of a question's best deployment, and its cost over that of the plan."""
    best = None if each.plan is None else each.plan.best
    if each.plan is None or best is None:
        empty = dict.fromkeys(COLUMNS) | {"gpu": "", "shape": "", "weights": ""}
        return {**empty, "more": None, "known": each.refusal or "nothing fits"}
    row = simulated(best, each.plan.demand.output, named(each.plan.goal.objectives))
    paid = None if base.best is None else _per_token(base)
    own = _per_token(each.plan)
    return {
        **{name: row.get(name) for name in COLUMNS},
        "probability": best.probability,
        "more": own / paid - 1.0 if paid and own else None,
        "known": KNOWN[best.option.kind.base.basis],
    }


def _per_token(plan: Plan) -> float:
    """Price of an output token, up to a factor that all plans share. [1]"""
    assert plan.best is not None, "only a plan with a deployment has a price"
    return plan.best.option.usd_per_hour / (plan.demand.rate * plan.demand.output)


def said(every: Sequence[WhatIf], found: Table) -> tuple[str, ...]:
    """A sentence for each change: what it costs, and how it is known."""
    out = []
    for row in list(found.rows())[1:]:
        if row["gpus"] is None:
            out.append(f"What if {row['change']}: {row['known']}.")
            continue
        price = "" if row["more"] is None else f", {row['more']:+.0%} a token"
        likely = row["probability"]
        sure = "" if likely is None else f", {chance(likely)} likely that all limits hold"
        known = "" if row["known"] == KERNELS else f" ({row['known']})"
        out.append(
            f"What if {row['change']}: {counted(row['gpus'], 'GPU')}, {row['shape']} on "
            f"{row['gpu']}{price}{sure}{known}."
        )
    return tuple(out)
