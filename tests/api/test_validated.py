"""Results of validations against counts by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roofline.api.validated import validated_kernels, validated_serving
from roofline.bench.columns import RefusedRows
from roofline.bench.end_to_end.cases import METRICS, UnreadRow
from roofline.bench.end_to_end.result import EndToEnd, Metric
from roofline.bench.validation import Validation
from roofline.report.scored import scored_figures
from roofline.report.sections import blocks
from roofline.report.sections.error_groups import group_errors
from roofline.table import Result

NAN = float("nan")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("rows\n", "utf-8")
    return path


@pytest.fixture
def kernels(file: Path) -> Result:
    """Four rows of two devices: one inside, two outside, one without a prediction."""
    found = Validation(
        pd.DataFrame({"gpu": ["a", "a", "b", "b"]}),
        np.array([1.0, 2.0, 1.0, NAN]),
        np.array([1.1, 1.0, 1.5, NAN]),
        np.array([0.5, 1.0, 0.5, NAN]),
        np.array([0.1, 0.1, 0.1, NAN]),
        np.array(["fitted"] * 3 + [""], dtype=object),
        (RefusedRows("gpu=b", np.array([3]), "nothing like it"),),
    )
    return validated_kernels(found, list(found.grouped(["gpu"])), file)


def test_rows_are_drawn_with_their_interval_and_grouped_as_asked(kernels: Result) -> None:
    (figures,) = scored_figures(kernels).values()
    assert [each.name for each in figures] == ["row 1", "row 2", "row 3"]
    assert [each.inside for each in figures] == [True, False, False]
    low, high = 1.1 * np.exp(-0.128155), 1.1 * np.exp(0.128155)
    assert [figures[0].low, figures[0].high] == pytest.approx([low, high])
    first, second = group_errors(kernels)
    assert (first.name, first.figures, first.inside) == ("a", 2, 0.5)
    assert first.median == pytest.approx((0.1 + 0.5) / 2)
    assert second.name == "b"
    assert second.median == pytest.approx(0.5)
    assert kernels.rows("refused") == [{"rows": 1, "where": "gpu=b", "why": "nothing like it"}]


def test_the_page_has_one_verdict_a_panel_and_the_groups(kernels: Result) -> None:
    keys = [block.key for block in blocks(kernels)]
    assert keys == ["verdict", "parity", "groups", "reproduce"]
    groups = blocks(kernels)[2]
    assert [figure.key for figure in groups.figures] == ["errors-by-group"]
    assert [grid.key for grid in groups.grids] == ["validated-table", "refused-table"]


def test_rates_are_of_each_device_and_other_kinds_are_not_drawn(file: Path) -> None:
    frame = pd.DataFrame({"n_gpus": [4, 2, 8], "thr_scope": ["total", "per_gpu", "total"]})
    rate = Metric(np.array([400.0, 100.0, 800.0]), np.array([400.0, 110.0, 900.0]), np.full(3, 0.1))
    none = Metric(*np.full((3, 3), NAN))
    metrics = {name: rate if name == "throughput_tok_s" else none for name in METRICS}
    texts = ("x",) * 3
    refused = (UnreadRow(0, "no time"), UnreadRow(1, "no time"))
    kinds = ("ok", "ok", "suspect")
    found = EndToEnd(3, metrics, np.ones(3, np.bool_), texts, texts, texts, refused, kinds)
    result = validated_serving(found, frame, [], file)
    (figures,) = scored_figures(result).values()
    assert [(each.measured, each.predicted) for each in figures] == [(100, 100), (100, 110)]
    assert result.rows("refused") == [{"rows": 2, "where": "", "why": "no time"}]
    assert "1 of them" in result.metadata["summary"][1]
