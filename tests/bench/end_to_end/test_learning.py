"""Planted constants are found again by runs, as far as there are runs to tell them."""

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.cases import METRICS, read
from roofline.bench.end_to_end.learning import LearntConstants, learn
from roofline.bench.end_to_end.metrics import PLACE, predictions
from roofline.bench.end_to_end.predicting import prepared
from roofline.bench.end_to_end.profiles import ProfileEvidence
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.bench.engine_profiles import shipped_profile
from roofline.cost.work import Array
from roofline.errors import DocumentError, InputError
from roofline.hardware.engine import engine
from tests.bench.end_to_end.test_cases import GOOD
from tests.cases import cases

BASE: dict[str, Any] = GOOD | {"model": "meta-llama/Llama-3.1-8B", "n_gpus": 1, "tp": 1}
LOADS = (1, 2, 4, 8, 16, 32, 64, 128)


def planted(changes: dict[str, float], rows: list[dict[str, Any]]) -> list[PreparedRow]:
    """Runs measured as a profile with other constants has them."""
    logs, _ = profiles.load()
    logs = logs.copy()
    for name, factor in changes.items():
        logs[PLACE[f"vllm.{name}"]] += np.log(factor)
    first, _ = prepared(read(pd.DataFrame(rows))[0])
    made = predictions(first, logs)
    told = [
        row | {name: one[name] for name in METRICS} for row, one in zip(rows, made, strict=True)
    ]
    found, refused = prepared(read(pd.DataFrame(told))[0])
    assert not refused
    return found


def at(loads: tuple[int, ...], **changes: Any) -> list[dict[str, Any]]:
    return [BASE | changes | {"batch": load, "requests": 10 * load} for load in loads]


@cache
def learnt(runs: int, **changes: float) -> LearntConstants:
    """Constants learnt from so many runs of one deployment; made once."""
    return learn(planted(changes, at(LOADS[:runs])))


def constant(found: LearntConstants, name: str) -> float:
    return next(each.after / each.before for each in found.moved if each.name == name)


def errors(found: LearntConstants) -> tuple[float, float]:
    return found.scores[-1].shipped, found.scores[-1].held


@pytest.mark.slow
def test_runs_as_predicted_move_nothing() -> None:
    found = learnt(len(LOADS))
    assert [each.after / each.before for each in found.moved] == pytest.approx(
        [1.0] * len(found.moved), abs=1e-3
    )
    assert not found.better or errors(found)[0] < 1e-6


def slower() -> dict[str, float]:
    """Factors of a host beyond the priors: 1.6 times the time a step, 30 µs more a sequence."""
    logs, _ = profiles.load()
    more = 1.0 + 30e-6 / float(np.exp(logs[PLACE["vllm.sequence_s"]]))
    return {"step_s": 1.6, "sequence_s": more}


@pytest.mark.slow
def test_a_slower_host_is_found_and_held_out_runs_say_so() -> None:
    found = learnt(len(LOADS), **slower())
    before, after = errors(found)
    assert found.better
    assert after < before / 2
    assert constant(found, "sequence_s") > 1.4
    assert constant(found, "experts") == pytest.approx(1.0)  # a dense network tells nothing of it
    assert (found.deployments, found.apart, found.runs) == (1, "run", 8)


@pytest.mark.slow
def test_fewer_runs_move_constants_less() -> None:
    every = cases((3, len(LOADS)), (3, 4, 6, len(LOADS)))
    moved = [constant(learnt(runs, **slower()), "sequence_s") for runs in every]
    assert all(few < more for few, more in pairwise([*moved, slower()["sequence_s"]]))
    assert moved[0] >= 1.0


@pytest.mark.slow
def test_what_the_runs_tell_of_a_constant_is_between_nothing_and_all() -> None:
    few, many = learnt(3, **slower()), learnt(len(LOADS), **slower())
    for one, other in zip(few.moved, many.moved, strict=True):
        assert 0 <= one.learnt <= other.learnt + 1e-9 < 1
        assert one.low <= one.after <= one.high
        assert other.high / other.low <= one.high / one.low + 1e-9


@pytest.mark.slow
def test_several_deployments_are_left_out_whole() -> None:
    rows = [
        row
        for model in ("LLaMA v3 8B", "Mistral 7B", "Qwen2-7B")
        for row in at((1, 8, 64), model=model)
    ]
    found = learn(planted({"request_s": 3.0, "step_s": 1.5}, rows))
    assert (found.deployments, found.apart) == (3, "deployment")
    assert found.better


@pytest.mark.slow
def test_spreads_are_shrunk_towards_those_shipped() -> None:
    found = learnt(len(LOADS))
    _, shipped = profiles.load()
    key = ("vllm", "steady_concurrency", "tpot_s", "hopper")
    # Twelve figures as shipped beside eight that miss nothing: √(12/20) of it.
    assert found.spreads[key] == pytest.approx(shipped[key] * (12 / 20) ** 0.5, rel=0.02)


@pytest.mark.slow
def test_a_learnt_profile_goes_before_the_shipped_one(tmp_path: Any) -> None:
    found = learnt(len(LOADS), **slower())
    told = ProfileEvidence(found.runs, "0", "own runs", (), found.spreads)
    path = profiles.write("vllm", found.logs, found.sd, told, tmp_path / "vllm.yaml")
    logs, spreads = profiles.load(path)
    shipped, _ = profiles.load()
    place = PLACE["vllm.sequence_s"]
    assert np.exp(logs[place]) == pytest.approx(np.exp(found.logs[place]), rel=1e-3)
    assert logs[PLACE["sglang.sequence_s"]] == shipped[PLACE["sglang.sequence_s"]]
    for key, value in found.spreads.items():
        assert spreads[key] == pytest.approx(value, rel=1e-3)
    own = profiles.profile_of(engine("vllm"), path)
    assert own.sequence_s > shipped_profile(engine("vllm")).sequence_s


def test_a_profile_of_another_engine_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "a.yaml"
    text = profiles.path_of("vllm").read_text("utf-8").replace("name: vllm\n", "name: other\n")
    path.write_text(text, "utf-8")
    with pytest.raises(DocumentError, match="'other' is no engine"):
        profiles.load(path)


@pytest.mark.slow
def test_too_few_runs_and_several_engines_are_refused() -> None:
    with pytest.raises(InputError, match="2 runs are too few"):
        learn(planted({}, at((1, 2))))
    rows = at((1, 2)) + at((4,), engine="sglang")
    with pytest.raises(InputError, match="sglang, vllm"):
        learn(planted({}, rows))


@pytest.mark.slow
def test_the_held_out_figure_never_saw_its_run() -> None:
    """One run that is off by far is predicted as if it were not there."""
    clean = planted({}, at(LOADS))
    rows = at(LOADS)
    logs: Array = profiles.load()[0]
    made = predictions(clean, logs)
    rows = [
        row | {name: one[name] for name in METRICS} for row, one in zip(rows, made, strict=True)
    ]
    rows[3] |= {name: 3 * rows[3][name] for name in ("ttft_s", "tpot_s", "latency_s")}
    rows[3]["throughput_tok_s"] /= 3
    found = learn(prepared(read(pd.DataFrame(rows))[0])[0])
    whole = {each.metric: each for each in found.scores}
    assert whole["tpot_s"].held < 0.1  # the median of the other seven
    assert not found.better
