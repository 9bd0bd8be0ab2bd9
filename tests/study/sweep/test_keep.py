"""Points kept slice by slice are those kept of all points put together."""

from collections.abc import Sequence

import numpy as np
import pytest

from roofline.study.sweep.columns import FigureColumns, price
from roofline.study.sweep.keep import FigureLimit, KeptPoints, SweepObjective, losses, unbeaten
from roofline.study.sweep.prices import priced
from tests.study.sweep.lanes import lane, numbers

LIMITS = (FigureLimit("ttft_s", 2.0), FigureLimit("tpot_s_high", 0.03))
RATE = "throughput_per_gpu_tok_s"
OBJECTIVES = (
    SweepObjective(RATE, largest=True),
    SweepObjective("ttft_s"),
    SweepObjective("tpot_s"),
)


def every(parts: int) -> list[FigureColumns]:
    """Points of some deployments, one after the other, each in so many parts."""
    out = []
    start = 0
    for layout, kv in (("tp1", "auto"), ("tp2", "auto"), ("tp2", "fp8"), ("tp4", "auto")):
        where = lane("llama-3.1-70b", "h200-sxm", layout, weights="fp8", kv=kv)
        asked = numbers(where)
        count = len(asked["batch"])
        for rows in np.array_split(np.arange(count), parts):
            some = {name: column[rows] for name, column in asked.items()}
            out.append(price(priced(where), some, start + rows))
        start += count
    return out


def kept(
    keep: str, parts: Sequence[FigureColumns], objectives: Sequence[SweepObjective] = OBJECTIVES
) -> KeptPoints:
    found = KeptPoints(keep, LIMITS, objectives)
    for part in parts:
        found.add(part)
    return found


def numbers_of(found: KeptPoints) -> list[int]:
    return [int(number) for part in found.parts() for number in part["index"]]


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["all", "feasible", "pareto", "top-7"])
def test_parts_do_not_matter(keep: str) -> None:
    whole, parts = kept(keep, every(1)), kept(keep, every(5))
    assert numbers_of(whole) == numbers_of(parts)
    assert whole.missed == parts.missed
    assert sum(whole.missed.values()) == sum(part.rows for part in every(1))


def test_every_choice_is_what_it_says() -> None:
    points = every(1)
    names = ("index", "fits", "output", "ttft_s", "tpot_s", "tpot_s_high", RATE)
    table = {name: np.concatenate([part[name] for part in points]) for name in names}
    # An answer of one token has no time between tokens, and no limit is about it.
    one = table["output"] == 1
    assert np.isnan(table["tpot_s"][one]).all()
    assert (np.isnan(table["tpot_s_high"]) == one).all()
    met = table["fits"] & (table["ttft_s"] <= 2.0) & (one | (table["tpot_s_high"] <= 0.03))
    assert met[one].any()
    assert 0 < met.sum() < len(met)
    assert numbers_of(kept("all", points)) == table["index"].tolist()
    assert numbers_of(kept("feasible", points)) == table["index"][met].tolist()
    good = {name: column[met] for name, column in table.items()}
    values = losses(good, OBJECTIVES)
    assert numbers_of(kept("pareto", points)) == good["index"][unbeaten(values)].tolist()
    order = sorted(range(len(values)), key=lambda row: (*values[row], good["index"][row]))
    best = sorted(int(good["index"][row]) for row in order[:7])
    assert numbers_of(kept("top-7", points)) == best


def test_what_is_missed_is_told_by_the_first_of_all_limits() -> None:
    points = every(1)
    found = kept("feasible", points)
    memory = sum(int((~part["fits"]).sum()) for part in points)
    slow = sum(int((part["fits"] & (part["ttft_s"] > 2.0)).sum()) for part in points)
    assert found.missed["memory"] == memory
    assert found.missed["ttft_s"] == slow
    assert found.missed[""] == len(numbers_of(found))


def test_ties_are_all_kept() -> None:
    """The answer's length changes nothing of the first token."""
    where = lane("llama-3.1-8b", batch=(1,), prompt=(100,), output=(5, 10, 20))
    columns = price(priced(where), numbers(where))
    found = KeptPoints("pareto", (), (SweepObjective("ttft_s"),))
    found.add(columns)
    assert numbers_of(found) == [0, 1, 2]
    first = KeptPoints("top-1", (), (SweepObjective("ttft_s"),))
    first.add(columns)
    assert numbers_of(first) == [0]


def test_what_never_fits_is_never_priced() -> None:
    where = lane("llama-3.1-70b", "l40s", "tp1", batch=(1, 2))
    prices = priced(where)
    found = KeptPoints("pareto", (), OBJECTIVES)
    found.add(price(prices, numbers(where)))
    assert found.missed == {"memory": 32, "": 0}
    assert "prefill" not in vars(prices)


def test_what_is_not_known_misses_no_limit_but_is_counted_apart() -> None:
    where = lane("llama-3.1-8b", calibration="none", batch=(1,), prompt=(100,), output=(1, 40))
    found = KeptPoints("all", (FigureLimit("tpot_s_high", 1.0),))
    found.add(price(priced(where), numbers(where), np.arange(2)))
    assert found.missed == {"tpot_s_high unknown": 1, "": 1}
