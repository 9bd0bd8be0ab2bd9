"""Assumptions of a plan: prices, nodes, kernels, errors, and how it was searched."""

from roofline.study.plan import speculation
from roofline.study.plan.curve import SHARES
from roofline.study.plan.kinds import Kind
from roofline.study.plan.plan import Plan
from roofline.table import Table, table


def assumed(kind: Kind) -> bool:
    """Whether the price of a kind is assumed."""
    fact = kind.base.node.gpu.facts.get("price.per_hour")
    return fact is not None and fact.basis == "assumed"


def assumptions(plan: Plan) -> Table:
    """Assumptions that the figures rest on, with the source of each."""
    rows = []

    def add(what: str, value: str, basis: str, source: str, note: str = "") -> None:
        rows.append({"what": what, "value": value, "basis": basis, "source": source, "note": note})

    for kind in plan.compared:
        fact = kind.base.node.gpu.facts.get("price.per_hour")
        value = f"{kind.usd_per_hour:g} $/h" if kind.usd_per_hour else "none"
        add(
            f"price of {kind.gpu}",
            value,
            fact.basis if fact else "given",
            ", ".join(t for t in (fact.source, fact.where) if t) if fact else "command",
            fact.note if fact else "",
        )
        add(f"node of {kind.gpu}", kind.base.node.title, "datasheet", kind.base.node.name)
        measured = kind.base.calibration
        named = "datasheet rates" if measured is None else measured.name
        known = "datasheet" if kind.bounded else "interpolated"
        add(f"kernels of {kind.name}", named, known, "calibration")
        if kind.uncertainty.source:
            add(
                f"errors of {kind.base.engine.name} predictions",
                f"{kind.uncertainty.step:.1%} between tokens, "
                f"{kind.uncertainty.first:.1%} to the first",
                "measured",
                kind.uncertainty.source,
                "log standard deviation on serving that was not fitted to",
            )
    for text in speculation.assumed(plan):
        add("acceptance of drafted tokens", text, "given", "command", speculation.SOURCE)
    add("load of a replica", f"up to {SHARES[-1]:.0%} of saturation", "assumed", "planner")
    add(
        "latencies under load",
        f"closed form, confirmed with {len(plan.demand.requests):,} requests simulated",
        "assumed",
        "planner",
    )
    return table([dict(t) for t in {tuple(row.items()): None for row in rows}], {})
