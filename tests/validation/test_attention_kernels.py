"""Calibrated attention on shapes the fit did not see.

A family (heads, key/value heads, width and window; heads of latent attention) is left out whole.
"""

from typing import Final

import numpy as np
import pytest

from roofline.bench.fit import fit
from roofline.bench.held_out import errors
from roofline.cost.kernels.form import EXTRAPOLATED, predict, seconds
from tests.validation.kernels import (
    Report,
    groups,
    label,
    matching,
    overall,
    report_all,
    show,
    thinned,
)
from tests.validation.measurements import file, needs

FILES: Final = ("attention_prefill", "attention_decode", "mla_prefill", "mla_decode")
pytestmark = needs(*map(file, FILES))

TARGETS: Final = {
    ("attention_prefill", "h100_sxm"): (0.07, 0.18),
    ("attention_prefill", "a100_sxm"): (0.08, 0.25),
    ("attention_decode", "h100_sxm"): (0.05, 0.20),
    ("attention_decode", "a100_sxm"): (0.11, 0.30),
    # Five widths of heads: the outer ones are left out two octaves from their neighbours.
    ("mla_decode", "h100_sxm"): (0.06, 0.30),
}
"""Median and 90th percentile of the errors."""
TABLES: Final = "bfloat16 bfloat16"
"""Formats of the groups whose residual tables are tested as well; the others are as good."""


@pytest.fixture(scope="module")
def both() -> tuple[dict[str, Report], dict[str, str]]:
    return report_all(
        FILES,
        lambda name, group: (name, group.name["gpu"]) in TARGETS and label(group).endswith(TABLES),
    )


@pytest.fixture(scope="module")
def reports(both: tuple[dict[str, Report], dict[str, str]]) -> dict[str, Report]:
    return both[0]


@pytest.fixture(scope="module")
def refused(both: tuple[dict[str, Report], dict[str, str]]) -> dict[str, str]:
    return both[1]


def test_the_errors_of_all_attention_groups_are_printed(
    reports: dict[str, Report], refused: dict[str, str]
) -> None:
    show("median / mean / p90 error on families left out, %", reports, refused)
    assert len(reports) + len(refused) == 15


@pytest.mark.parametrize(("name", "gpu"), TARGETS)
def test_families_left_out_are_known_well(
    reports: dict[str, Report], refused: dict[str, str], name: str, gpu: str
) -> None:
    median, p90 = TARGETS[name, gpu]
    found = [each for each in matching(reports, refused, f"{name} {gpu}") if each.table]
    assert found
    for each in found:
        assert each.best.median <= median
        assert each.best.p90 <= p90


def test_intervals_of_attention_hold(reports: dict[str, Report]) -> None:
    inside = overall(reports, lambda found: found.inside)
    print(f"\n{100 * inside:.0f} % of all rows lie in their central 80 % interval")
    assert 0.74 <= inside <= 0.88


@pytest.mark.parametrize("name", ["attention_prefill", "attention_decode"])
def test_published_rates_carry_a_fit_to_another_device(name: str) -> None:
    """H200 from H100 without a row of it: its memory is faster, its SMs are the same."""
    print()
    here = {label(group).partition(" ")[2]: group for group in groups(name)}
    for there in groups(name, sample=True):
        known = thinned(here[label(there).partition(" ")[2]], 800)
        model = fit(
            known.form,
            known.dims,
            known.machine,
            known.measured,
            families=known.families,
            starts=1,
        )
        off = errors(seconds(model, there.dims, there.machine), there.measured)
        if name == "attention_decode":
            several = there.dims | {"new": 4.0 * there.dims["new"]}
            assert (predict(model, several, there.machine)[2] == EXTRAPOLATED).all()
        print(f"{name} {label(there):60} {len(there):4} rows  {off}")
        assert off.median <= 0.07
        assert np.isfinite(off.p90)
