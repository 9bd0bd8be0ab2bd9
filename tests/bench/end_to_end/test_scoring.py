"""Figures of rows beside predictions, as ``validate --kind e2e`` has them."""

import numpy as np
import pandas as pd
import pytest

from roofline.bench.end_to_end.predicting import end_to_end
from roofline.bench.end_to_end.scoring import refusals, score
from tests.bench.end_to_end.test_cases import GOOD
from tests.bench.end_to_end.test_predicting import ROWS

FRAME = pd.DataFrame(ROWS)


def test_figures_are_those_that_validate_predicts() -> None:
    scored, found = score(FRAME), end_to_end(FRAME, cross_validate=False)
    assert [run.known.row.place for run in scored.runs] == list(np.flatnonzero(found.predicted))
    for run in scored.runs:
        place = run.known.row.place
        for figure in run.figures:
            metric = found.metrics[figure.metric]
            assert figure.measured == metric.measured[place]
            assert figure.predicted == metric.predicted[place]
            assert figure.log_sd == metric.log_sd[place]


def test_a_figure_that_its_row_contradicts_is_left_out() -> None:
    contradicted = next(run for run in score(FRAME).runs if run.known.row.place == 3)
    assert "latency_s" not in {figure.metric for figure in contradicted.figures}


def test_only_figures_outside_have_a_reason() -> None:
    rows = [GOOD | {"tpot_s": tpot} for tpot in (1e-5, 0.012, 5.0)]
    entries = list(score(pd.DataFrame(rows)).reasons())
    assert len(entries) == 3
    assert [guess is None for _, _, guess in entries] == [
        figure.inside is not False for _, figure, _ in entries
    ]
    assert sum(guess is not None for _, _, guess in entries) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("counts", ["output", "input", "input+output"])
def test_a_rate_of_each_gpu_is_scored_as_that_of_all(counts: str) -> None:
    row = GOOD | {"n_gpus": 2, "tp": 2, "throughput_tok_s": 100.0, "thr_counts": counts}
    whole, each = (
        score(pd.DataFrame([row | {"thr_scope": scope, "tpot_s": None}])).runs[0].figures[0]
        for scope in ("total", "per_gpu")
    )
    assert each.measured == 2 * whole.measured
    assert each.predicted == pytest.approx(whole.predicted)
    assert whole.metric == {"output": "output_tok_s", "input": "input_tok_s"}.get(
        counts, "total_tok_s"
    )


def test_reasons_for_refusals_are_counted() -> None:
    counted = refusals(score(FRAME).refused)
    assert sum(number for _, number in counted) == 2
    assert any("h999" in why for why, _ in counted)
