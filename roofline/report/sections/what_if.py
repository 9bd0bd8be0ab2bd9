"""Changes, each priced by itself."""

from dataclasses import dataclass
from typing import Final

from roofline.report.block import Block, Cell, Grid, heads
from roofline.table import Result

ORDER: Final = 70

SAME: Final = 0.005
"""A change below this is none. [1]"""


@dataclass(frozen=True, slots=True)
class Effect:
    """A change, and its factors on the figures of this deployment. [1]"""

    change: str
    option: str
    ttft: float
    tpot: float
    throughput: float
    fits: bool


def what_if_facts(result: Result) -> tuple[Effect, ...]:
    """Changes by what they do for throughput, those that do not fit last."""
    rows = result.tables["what_if"].rows()
    effects = [
        Effect(
            str(row["change"]),
            str(row["option"]),
            float(row["ttft"]),
            float(row["tpot"]),
            float(row["throughput"]),
            bool(row["fits"]),
        )
        for row in rows
    ]
    return tuple(sorted(effects, key=lambda effect: (not effect.fits, -effect.throughput)))


def factor(value: float, less_is_better: bool) -> Cell:
    """A factor, marked better or worse by more than its colour.

    >>> factor(0.5, less_is_better=True).tone, factor(1.001, less_is_better=True).tone
    ('good', 'muted')
    """
    if abs(value - 1) < SAME:
        return Cell("same", tone="muted")
    better = (value < 1) == less_is_better
    arrow = "▼" if value < 1 else "▲"
    return Cell(f"{arrow} × {value:.2f}", tone="good" if better else "bad")


def build(result: Result) -> Block | None:
    """Section of the page."""
    if "what_if" not in result.tables or not len(result.tables["what_if"]):
        return None
    facts = what_if_facts(result)
    grid = Grid(
        "what-if-table",
        "One change at a time, as factors on the figures of this deployment",
        heads(
            numbers=["ttft", "tpot", "throughput"],
            change="Change",
            option="How to ask for it",
            ttft="TTFT",
            tpot="TPOT",
            throughput="Throughput per GPU",
            fits="Memory",
        ),
        tuple(
            (
                Cell(effect.change),
                Cell(effect.option, tone="code") if effect.option else Cell("other hardware"),
                factor(effect.ttft, less_is_better=True),
                factor(effect.tpot, less_is_better=True),
                factor(effect.throughput, less_is_better=False),
                Cell("fits", tone="good") if effect.fits else Cell("does not fit", tone="bad"),
            )
            for effect in facts
        ),
    )
    return Block("what-if", "What would help", "what_if.html", facts, grids=(grid,))
