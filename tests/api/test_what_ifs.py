"""Plans again with changes: each row is the plan of the changed question."""

from typing import Any

import pytest

import roofline
from roofline.errors import InputError

ASKED: dict[str, Any] = {
    "model": "llama-3.1-8b", "gpus": 4, "rate": 20.0, "requests": 300, "calibration": "none",
    "disaggregated": False, "slo": "ttft_p99=400ms,tpot_p99=40ms",
}  # fmt: skip


@pytest.mark.slow
def test_a_row_is_the_plan_of_the_changed_question() -> None:
    changes: dict[str, dict[str, Any]] = {
        "price=-30%": {"usd_per_hour": 0.7 * 2.99},
        "gpu=a100-sxm,price=1.5": {"gpu": "a100-sxm", "usd_per_hour": 1.5},
        "rate=+50%,weights=fp8": {"rate": 30.0, "weights": "fp8"},
    }
    found = roofline.plan(**ASKED, what_if=list(changes))
    base, *rows = found.tables["what_ifs"].rows()
    assert base["change"] == "as asked"
    assert base["more"] == 0.0
    for row, (text, change) in zip(rows, changes.items(), strict=True):
        alone = next(iter(roofline.plan(**{**ASKED, **change}).tables["verdict"].rows()))
        assert row["change"] == text
        for name in ("gpu", "gpus", "shape", "weights", "ttft_s", "tpot_s"):
            assert row[name] == alone[name], text
        assert row["usd_per_mtok"] == pytest.approx(alone["usd_per_mtok"])
        assert row["more"] == pytest.approx(row["usd_per_mtok"] / base["usd_per_mtok"] - 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["colour=red", "price", "price=cheap", "gpu=a,gpu=b", "gpus=nan", "rate=-200%", "price=inf"],
)
def test_a_change_without_a_meaning_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="what if"):
        roofline.plan(**ASKED, what_if=text)


@pytest.mark.slow
def test_an_announced_gpu_is_a_bound_and_says_so() -> None:
    given = {**ASKED, "calibration": "auto", "gpus": 2, "rate": 5.0}
    found = roofline.plan(**given, what_if="gpu=scenarios/hardware/rubin.yaml")
    base, other = found.tables["what_ifs"].rows()
    assert base["known"] == "measured kernels"
    assert other["known"].startswith("assumed")
    assert other["probability"] is None
    assert any("What if gpu=" in each and "assumed" in each for each in found.metadata["summary"])
