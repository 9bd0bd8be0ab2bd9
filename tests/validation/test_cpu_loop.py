"""Probe, fit, predict, measure: a decoder that the fit never saw, on this processor.

Times are printed. They are held to a bound only where the machine is calm enough for its clock to
mean something: where others left most samples alone, and the decoder's steps took the same time
before the calibration and after it. ``ROOFLINE_LOOP_S`` is the time for the calibration, 0 leaves
the loop out.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import pytest

from tests.validation.numpy_decoder import STEPS, Decoder, Step, Weights, kernels

BUDGET_S: Final = float(os.environ.get("ROOFLINE_LOOP_S", "0"))
MEDIAN: Final = 0.10
"""Bound of the median error on a calm machine."""
MOVED: Final = 0.10
"""Most that the median step may take longer or shorter after the calibration than before. What is
compared is in the middle: the machine itself then moved it by half the bound at most."""
SLOWED: Final = 0.5
"""Share of points, and of steps, that others may have slowed down all the time."""
ROOT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 600.0


@pytest.fixture(scope="module")
def outcome() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    if not BUDGET_S:
        pytest.skip("no time is given to the loop: ROOFLINE_LOOP_S is 0")
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    run = subprocess.run(
        [sys.executable, "-m", "tests.validation.numpy_decoder", str(BUDGET_S)],
        cwd=ROOT,
        env=os.environ | threads,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    *rows, about = [json.loads(line) for line in run.stdout.splitlines()]
    if not rows:
        pytest.skip(f"THE MACHINE IS TOO BUSY, nothing was compared: {about['noise']}")
    print(report(rows, about))
    return rows, about


def off(rows: Sequence[dict[str, Any]], column: str) -> float:
    """Median absolute error. [1]"""
    return float(median(abs(row[column] / row["measured"] - 1.0) for row in rows))


def disturbed(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """Why the times mean little; empty on a calm machine."""
    moved, slowed = median(abs(row["moved"]) for row in rows), about["slowed"]
    steps = sum(row["slowed"] for row in rows) / len(rows)
    if about["calm"] and moved <= MOVED and max(slowed, steps) <= SLOWED:
        return ""
    return (
        f"steps took {moved:.1%} longer or shorter afterwards (calm: {MOVED:.0%}), {slowed:.0%} of "
        f"the points and {steps:.0%} of the steps were slowed down or interrupted all the time "
        f"(calm: {SLOWED:.0%}); {about['noise']}"
    )


def report(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    lines = [
        f"\n{about['points']} points in {about['seconds']:.0f} s, {about['slowed']:.0%} of them "
        f"slowed down; {about['cache'] / 2**20:.0f} MiB of the last-level cache are had; "
        f"{about['noise']}",
        f"{'step':20} {'measured':>10} {'moved':>7} {'fitted':>8} {'peak roofline':>14} "
        f"{'datasheet':>10}",
    ]
    for row in rows:
        shape = f"{row['name']} {row['count']}×{row['new']}/{row['context']}"
        shares = (row[name] / row["measured"] - 1.0 for name in ("predicted", "naive", "datasheet"))
        fit, naive, sheet = (f"{share:+.1%}" for share in shares)
        shape += " *" * row["slowed"]
        lines.append(
            f"{shape:20} {1e3 * row['measured']:7.2f} ms {row['moved']:+7.1%} {fit:>8} {naive:>14} "
            f"{sheet:>10}"
        )
    inside = sum(row["low"] <= row["measured"] <= row["high"] for row in rows)
    if any(row["slowed"] for row in rows):
        lines.append("* others slowed it down or interrupted it all the time")
    lines.append(
        f"median error: fitted {off(rows, 'predicted'):.1%}, roofline at the highest rates "
        f"measured {off(rows, 'naive'):.1%}, at published rates {off(rows, 'datasheet'):.1%}; "
        f"{inside} of {len(rows)} in their 80 % interval"
    )
    return "\n".join(lines)


def test_the_fit_predicts_a_decoder_that_it_never_saw(
    outcome: tuple[list[dict[str, Any]], dict[str, Any]],
) -> None:
    rows, about = outcome
    if why := disturbed(rows, about):
        pytest.skip(f"THE MACHINE IS DISTURBED, nothing was compared: {why}")
    assert off(rows, "predicted") <= MEDIAN, report(rows, about)


def test_the_fit_beats_the_best_roofline(
    outcome: tuple[list[dict[str, Any]], dict[str, Any]],
) -> None:
    """Also where the machine is disturbed: the roofline is off by far more than any noise here."""
    rows, about = outcome
    assert off(rows, "predicted") < off(rows, "naive"), report(rows, about)


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_no_probe_has_a_matrix_of_the_decoder(step: Step) -> None:
    for point, _ in kernels(step):
        if point.probe.name == "gemm":
            assert (point.at["n"], point.at["k"]) not in point.probe.axes["n k"]
        if "heads kv_heads head_dim" in point.probe.axes:
            heads = tuple(point.at[name] for name in ("heads", "kv_heads", "head_dim"))
            assert heads not in point.probe.axes["heads kv_heads head_dim"]


@pytest.mark.parametrize("new", [1, 7])
def test_the_decoder_attends_as_one_that_recomputes_everything(new: int) -> None:
    """Prefill of a whole context, then its last tokens again after a cache of the first."""
    context = 12
    weights = Weights()
    whole = Decoder(Step("prefill", 1, context, context), weights)
    want = whole.run().copy()
    part = Decoder(Step("part", 1, new, context), weights)
    for mine, theirs in zip(part.caches, whole.caches, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            a[:, :, : context - new] = b[:, :, : context - new]
    part.x = whole.x[-new:]
    np.testing.assert_allclose(part.run(), want, rtol=1e-3, atol=1e-4)
