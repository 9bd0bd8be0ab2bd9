"""Measured rows of two pools, of drafts and of MLPerf, to which nothing was fitted."""

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from tests.cases import cases
from tests.validation.measurements import FOLDER, needs

if TYPE_CHECKING:
    from roofline.bench.end_to_end.result import EndToEnd

FILE: Final = FOLDER / "v2" / "e2e.csv.gz"
MOST: Final = 2000.0
"""Clients above which a row of two pools takes seconds. [1]"""

FEW: Final = 16.0
"""Clients up to which no prompt of a row of two pools waits long for others. [1]"""

pytestmark = needs(FILE)


@pytest.fixture(scope="module")
def found() -> "EndToEnd":
    """Rows of two pools that have a latency, of drafts on H200, and of MLPerf.

    Those of other deployments take minutes; of drafts every third row is taken, of MLPerf every
    second, or all.
    """
    import pandas as pd

    from roofline.bench.end_to_end.kinds.row_kinds import kinds
    from roofline.bench.end_to_end.predicting import end_to_end

    every = pd.read_csv(FILE, low_memory=False)
    kind = pd.Series(kinds(every))
    pools = kind.eq("disagg") & every.latency_s.notna() & ~(every.batch > MOST)
    drafts = kind.eq("speculative") & every.gpu.eq("h200_sxm")
    drafts &= drafts.cumsum() % cases(3, 1) == 1 % cases(3, 1)
    published = kind.str.startswith("mlperf")
    published &= published.groupby(kind).cumsum() % cases(2, 1) == 0
    some = every[pools | drafts | published]
    return end_to_end(some.reset_index(drop=True), cross_validate=False)


def figures(found: "EndToEnd", kind: str, metric: str) -> dict[str, float]:
    got: dict[str, float] = found.figures(found.of_kind(kind))["metrics"][metric]
    metrics = found.metrics[metric]
    rows = found.of_kind(kind) & np.isfinite(metrics.predicted)
    bias = float(np.median(np.log(metrics.predicted[rows] / metrics.measured[rows])))
    print(
        f"\n{kind:19} {metric:17} {got['n']:4} rows, median {got['median']:5.1f} %, "
        f"inside {got['interval_coverage']:4.0%}, bias {bias:+.2f}",
        end="",
    )
    return {**got, "bias": bias}


@pytest.mark.parametrize(
    ("kind", "metric", "rows", "median", "inside"),
    [
        ("disagg", "ttft_s", 50, 24.0, 0.7),
        ("disagg", "tpot_s", 50, 12.6, 0.75),
        ("disagg", "latency_s", 50, 16.1, 0.75),
        ("disagg", "throughput_tok_s", 50, 14.5, 0.75),
        ("speculative", "tpot_s", cases(13, 38), 23.0, 0.65),
        ("speculative", "throughput_tok_s", cases(8, 22), 29.0, 0.8),
        ("mlperf_offline", "throughput_tok_s", cases(50, 100), 22.0, 0.7),
        ("mlperf_server", "throughput_tok_s", cases(50, 100), 36.0, 0.45),
    ],
)
def test_rows_are_predicted_as_well_as_they_were(
    found: "EndToEnd", kind: str, metric: str, rows: int, median: float, inside: float
) -> None:
    """A floor under what is reached, not a target."""
    got = figures(found, kind, metric)
    assert got["n"] >= rows
    assert got["median"] <= median
    assert got["interval_coverage"] >= inside


def test_first_tokens_of_pools_with_few_clients_have_the_handover_in_them() -> None:
    """Without that software, TTFT of SGLang and vLLM is a tenth of a second too short."""
    import pandas as pd

    from roofline.bench.end_to_end.kinds.row_kinds import kinds
    from roofline.bench.end_to_end.predicting import end_to_end

    every = pd.read_csv(FILE, low_memory=False)
    few = pd.Series(kinds(every)).eq("disagg") & every.latency_s.isna() & (every.batch <= FEW)
    rows = every[few & every.engine.isin(["sglang", "vllm"])].reset_index(drop=True)
    alone = end_to_end(rows, cross_validate=False)
    got = figures(alone, "disagg", "ttft_s")
    assert got["n"] >= 25
    assert got["median"] <= 25.0
    assert abs(got["bias"]) <= 0.1


def test_every_refusal_says_why(found: "EndToEnd") -> None:
    assert found.refused
    assert all(each.why for each in found.refused)
    print({each.why for each in found.refused})
