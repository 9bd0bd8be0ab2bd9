"""Rows that an independent FLOP counter wrote: products counted together, or apart by kind."""

import csv
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from roofline.cost.step import SequenceGroup

GOLDEN: Final = Path(__file__).parent.parent / "golden"


class Counted(NamedTuple):
    """FLOPs of one forward pass, and its matrix and batched products where counted apart."""

    name: str
    phase: str
    batch: int
    tokens: int
    past: int
    flops: int
    config: str
    matrices: int
    batched: int

    @property
    def group(self) -> SequenceGroup:
        return SequenceGroup(float(self.batch), float(self.tokens), float(self.past + self.tokens))


@cache
def counts(file: str) -> tuple[Counted, ...]:
    """Rows of a CSV beside the goldens."""
    with (GOLDEN / file).open(encoding="utf-8", newline="") as lines:
        return tuple(
            Counted(
                row["name"],
                row["phase"],
                int(row["batch"]),
                int(row["tokens"]),
                int(row["past"]),
                int(row["flops"]),
                row["config"],
                int(row.get("matrices", 0)),
                int(row.get("batched", 0)),
            )
            for row in csv.DictReader(lines)
        )


def named(row: Counted) -> str:
    """Identity of a row among the tests."""
    return f"{row.name}-{row.phase}-{row.tokens}-{row.past}"
