"""Rows at several constants have what they have at each alone, in one process or in more."""

import numpy as np
import pytest

from roofline.bench.end_to_end import metrics
from roofline.bench.end_to_end.fitting import priors
from roofline.bench.end_to_end.metrics import PLACE, predictions, predictions_at
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.cost.work import Array
from roofline.records import replace
from tests.bench.end_to_end.synthetic import CASE, lawful


def rows() -> list[PreparedRow]:
    return [
        replace(each, row=replace(each.row, case=replace(CASE, network=network)))
        for network in ("llama-3.1-8b", "phi-4")
        for each in (lawful(batch=4.0, requests=8.0), lawful("static_batch", batch=8.0))
    ]


def vectors() -> Array:
    logs, _ = priors()
    out = np.tile(logs, (3, 1))
    out[1, PLACE["vllm.step_s"]] += 0.5
    out[2, PLACE["vllm.request_s"]] += 0.5
    return out


@pytest.mark.slow
@pytest.mark.parametrize("many", [1, 500])
def test_each_vector_has_what_it_has_alone(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MANY", many)
    monkeypatch.setattr(metrics, "cores", lambda: 2)
    found, logs = rows(), vectors()
    together = predictions_at(found, logs)
    for place, vector in enumerate(logs):
        alone = [each.predicted(metrics.profile_of(each, vector)) for each in found]
        assert [each[place] for each in together] == alone == predictions(found, vector)
    # A batch is in the engine's hands before it starts.
    assert together[1][2] == together[1][0] != together[1][1]


@pytest.mark.slow
def test_standing_processes_answer_as_this_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MANY", 1)
    monkeypatch.setattr(metrics, "cores", lambda: 2)
    found, logs = rows(), vectors()
    alone = [
        [each.predicted(metrics.profile_of(each, vector)) for vector in logs] for each in found
    ]
    with metrics.workers_of(found):
        assert predictions_at(found, logs) == predictions_at(found, logs) == alone
        assert predictions_at(found[:1], logs[:1]) == [alone[0][:1]]
    assert predictions_at(found, logs[:1]) == [each[:1] for each in alone]


def test_rows_that_are_not_wanted_have_no_metrics() -> None:
    found, logs = rows(), vectors()
    wanted = np.zeros((len(logs), len(found)), dtype=np.bool_)
    wanted[1, 0] = True
    some = predictions_at(found, logs, wanted)
    assert [[bool(each) for each in row] for row in some] == wanted.T.tolist()
