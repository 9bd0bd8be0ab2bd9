"""Errors of deployments of which a few runs are given: learnt from these, the others predicted.

``python -m roofline.bench.end_to_end.given e2e.csv.gz [RUNS]`` does what ``roofline calibrate
--from`` does for a user, with three runs unless told: of each deployment on H100 and H200 that has
enough of them the lightest, the heaviest and those between are given, and the engine's constants
are learnt from them alone.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.bench import arguments
from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.ablation import METRICS, absolute, closed_loops, percentages
from roofline.bench.end_to_end.driving import driver
from roofline.bench.end_to_end.learning import FEWEST, constants_of
from roofline.bench.end_to_end.metrics import predictions_at
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.cost.work import Array
from roofline.errors import InputError

OTHERS: Final = 5
"""Runs beside those given from which on a deployment counts. [1]"""
INFERRED: Final = ("inferred-", "unnamed")
"""Beginnings of the names of harnesses that no source names."""


class GivenRuns(Struct, frozen=True):
    """A deployment of which some runs were given, and its other runs."""

    name: str
    """Device, profile, network, layout and release."""
    harness: str
    """Harness that its other runs are read by, the most frequent one."""
    runs: int
    """Other runs. [1]"""
    shipped: dict[str, Array]
    learnt: dict[str, Array]
    """Absolute errors of these by metric: by the shipped constants, and by those learnt. [1]"""


def given_runs(rows: Sequence[PreparedRow], number: int = FEWEST) -> list[GivenRuns]:
    """Errors of each deployment with enough runs of closed loops, of which some are given.

    Raises:
        InputError: Fewer are given than constants are learnt from.
    """
    if number < FEWEST:
        raise InputError(f"{number} runs are too few to learn from", hint=f"give {FEWEST} or more")
    together: dict[tuple[str, ...], list[PreparedRow]] = {}
    for each in rows:
        case = each.row.case
        key = (case.gpu, each.engine.profile, case.network, case.weights, case.layout.spelled)
        together.setdefault((*key, each.row.version), []).append(each)
    return [
        _predicted(" ".join(key), mine, number)
        for key, mine in sorted(together.items())
        if len(mine) >= number + OTHERS
    ]


def _predicted(name: str, mine: Sequence[PreparedRow], number: int) -> GivenRuns:
    runs = sorted(mine, key=lambda each: (each.row.batch, each.row.isl, each.row.osl))
    taken = {int(i * (len(runs) - 1) / (number - 1) + 0.5) for i in range(number)}
    others = [each for place, each in enumerate(runs) if place not in taken]
    logs = np.stack([profiles.load()[0], constants_of([runs[place] for place in sorted(taken)])])
    found = predictions_at(others, logs)
    errors = [
        {metric: absolute(zip(others, of, strict=True), metric) for metric in METRICS}
        for of in zip(*found, strict=True)
    ]
    names = [driver(each.row).name for each in others]
    return GivenRuns(name, max(set(names), key=names.count), len(others), *errors)


def table(found: Sequence[GivenRuns]) -> list[str]:
    """Lines of a table: median, mean and 90th percentile in percent, shipped → learnt."""
    inferred = [each for each in found if each.harness.startswith(INFERRED)]
    named = [each for each in found if not each.harness.startswith(INFERRED)]
    lines = ["| deployment | runs | TPOT | TTFT |", "|---|---|---|---|"]
    for name, mine in (
        *((each.name, [each]) for each in found),
        ("clients as a source says", named),
        ("clients inferred or assumed", inferred),
        ("all", found),
    ):
        if mine:
            cells = [_errors(mine, metric) for metric in METRICS]
            lines.append(f"| {name} | {sum(each.runs for each in mine):,} | {' | '.join(cells)} |")
    return lines


def _errors(mine: Sequence[GivenRuns], metric: str) -> str:
    """Errors by the shipped constants → by those learnt; empty where no run has the metric."""
    both = [
        np.concatenate([errors[metric] for errors in each])
        for each in zip(*((one.shipped, one.learnt) for one in mine), strict=True)
    ]
    return " → ".join(map(percentages, both)) if len(both[0]) else ""


def main(path: Path, number: int) -> None:
    """Print the table of a file of measurements."""
    import pandas as pd

    found = given_runs(closed_loops(pd.read_csv(path, low_memory=False)), number)
    sys.stdout.write("\n".join(table(found)) + "\n")


if __name__ == "__main__":
    asked = arguments.parser("roofline.bench.end_to_end.given", __doc__)
    asked.add_argument("file", type=arguments.file, help="measured rows: e2e.csv.gz")
    asked.add_argument("runs", nargs="?", type=int, default=FEWEST, help="runs that are given")
    told = asked.parse_args()
    arguments.answer(asked, lambda: main(told.file, told.runs))
