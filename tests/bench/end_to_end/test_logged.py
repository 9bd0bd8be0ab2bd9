"""Deviations that a simulated log has are found again, and nothing is claimed beyond it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.api.learning import _logged_by
from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.learning import ConstantChange
from roofline.bench.end_to_end.logged import (
    BEYOND,
    FEWEST_CELLS,
    LearntLog,
    LoggedSteps,
    cells_of,
    learn_log,
)
from roofline.cost.engine_costs import EngineCosts, LoggedRange
from roofline.errors import InputError
from roofline.hardware.engine import engine as engine_named
from roofline.interop.engine_logs import EngineLog, read_logs
from roofline.interop.results import RunOptions
from roofline.records import replace
from tests.interop.engine_logs.simulated import (
    Planted,
    loops,
    prometheus_lines,
    sglang_lines,
    trtllm_lines,
    vllm_lines,
    written,
)

GIVEN = RunOptions(model="llama-3.1-8b", gpu="h100-sxm", gpus=1)
LINES = {"vllm": vllm_lines, "sglang": sglang_lines, "trtllm": trtllm_lines}
SLOWER = Planted(factor=1.2, step_s=1e-3)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, EngineLog]:
    """Logs of each engine, 1.2 times as slow and with a millisecond more for each step."""
    folder, out = tmp_path_factory.mktemp("logs"), {}
    for engine, lines in LINES.items():
        runs = list(loops(SLOWER, engine=engine, seconds=40.0))
        out[engine] = read_logs([written(folder / f"{engine}.log", lines(runs))])
        if engine == "vllm":
            out["metrics"] = read_logs([written(folder / "metrics", prometheus_lines(runs, 4.0))])
    return out


def learnt(log: EngineLog) -> LearntLog:
    known = _logged_by(log, GIVEN)
    return learn_log(LoggedSteps(known, cells_of(log.steps, known, log.capacity)))


@pytest.fixture(scope="module")
def learnt_by(logs: dict[str, EngineLog]) -> Callable[[str], LearntLog]:
    """Constants learnt from the log of an engine; made once."""
    return cache(lambda engine: learnt(logs[engine]))


def moved(found: LearntLog, name: str) -> ConstantChange:
    return next(each for each in found.learnt.moved if each.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [*LINES, "metrics"])
def test_what_is_planted_is_found_again(learnt_by: Callable[[str], LearntLog], engine: str) -> None:
    found = learnt_by(engine)
    gain, step = moved(found, "decode_gain"), moved(found, "step_s")
    assert gain.after / gain.before == pytest.approx(SLOWER.factor, rel=0.04)
    assert step.after - step.before == pytest.approx(SLOWER.step_s, abs=2.5e-4)
    sequence = moved(found, "sequence_s")
    assert sequence.after - sequence.before == pytest.approx(0.0, abs=5e-6)
    # The whole step of any batch is known better than its parts.
    shipped, held, fitted = (
        getattr(found.learnt.scores[-1], name) for name in ("shipped", "held", "fitted")
    )
    assert found.learnt.apart == "octave of the batch"
    assert fitted <= held < 0.02 < 0.15 < shipped


@pytest.mark.slow
def test_a_batch_that_was_not_logged_is_predicted_better(logs: dict[str, EngineLog]) -> None:
    """The largest batches are left out by hand: theirs are beyond all that is learnt from."""
    log = logs["vllm"]
    few = replace(log, steps=tuple(each for each in log.steps if each.running < 40))
    found = learnt(few)
    known = found.steps.known
    many = replace(log, steps=tuple(each for each in log.steps if each.running > 40))
    others = LoggedSteps(known, cells_of(many.steps, known, many.capacity))
    told = np.log([each.seconds for each in others.cells])
    profile = profiles.profile_of(engine_named("vllm"))
    own: dict[str, Any] = {each.name: each.after for each in found.learnt.moved}
    before, after = (
        np.abs(np.log([whole for whole, _ in others.parts(others.prices(each))]) - told)
        for each in (profile, replace(profile, **own))
    )
    assert after.max() < 0.05 < before.min()
    # And the interval says that they were beyond.
    load = others.cells[-1].load
    wide = found.logged.widened(BEYOND, load.batch, load.context)
    assert found.logged.log_sd < wide <= BEYOND
    assert load.batch > found.logged.batch[1]


@pytest.mark.slow
def test_a_noisy_log_moves_less(
    logs: dict[str, EngineLog], learnt_by: Callable[[str], LearntLog]
) -> None:
    log = logs["vllm"]
    random = np.random.default_rng(0)
    noise = np.exp(random.normal(0.0, 0.5, len(log.steps)))
    shaken = replace(
        log,
        steps=tuple(
            replace(step, seconds=step.seconds * each)
            for step, each in zip(log.steps, noise.tolist(), strict=True)
        ),
    )
    clean, noisy = learnt_by("vllm"), learnt(shaken)
    for name in ("decode_gain", "step_s"):
        one, other = moved(clean, name), moved(noisy, name)
        assert other.learnt < one.learnt
        assert other.high / other.low > one.high / one.low
    assert noisy.logged.log_sd > clean.logged.log_sd


@pytest.mark.slow
def test_a_log_of_one_load_is_told_apart_by_time(
    logs: dict[str, EngineLog], learnt_by: Callable[[str], LearntLog]
) -> None:
    log = logs["trtllm"]
    one = replace(log, steps=tuple(each for each in log.steps if 15 <= each.running <= 17))
    found = learnt(one)
    assert found.learnt.apart == "third of the log"
    assert found.learnt.better
    # The step is known; that a longer one is of kernels or of software is not.
    assert found.learnt.scores[-1].fitted < 0.02
    assert moved(found, "decode_gain").learnt < moved(learnt_by("trtllm"), "decode_gain").learnt


@pytest.mark.slow
def test_too_few_loads_and_unknown_caches_are_refused(logs: dict[str, EngineLog]) -> None:
    log = logs["vllm"]
    known = _logged_by(log, GIVEN)
    few = LoggedSteps(known, cells_of(log.steps, known, log.capacity)[: FEWEST_CELLS - 1])
    with pytest.raises(InputError, match=f"steps of {FEWEST_CELLS - 1} kinds of load"):
        learn_log(few)
    nan = float("nan")
    blind = replace(log, steps=tuple(replace(each, usage=nan, tokens=nan) for each in log.steps))
    with pytest.raises(InputError, match="does not say how much of the cache"):
        cells_of(blind.steps, known, blind.capacity)
    nothing = replace(log, steps=tuple(replace(each, usage=0.0) for each in log.steps))
    assert all(each.load.context >= 1 for each in cells_of(nothing.steps, known, nothing.capacity))
    cells = cells_of(blind.steps, known, blind.capacity, prompt=1000.0, output=400.0)
    assert [each.load.context for each in cells] == pytest.approx([1200.0] * len(cells))


def test_intervals_widen_over_an_octave_beyond_the_log() -> None:
    logged = LoggedRange((8, 64), (500, 2000), (4000, 64_000), 0.04)
    costs = EngineCosts(tpot_log_sd=0.14, logged=logged)
    assert costs.tpot_sd(16, 1000) == pytest.approx(0.04)
    assert costs.tpot_sd(64 * 2**0.5, 700) == pytest.approx(0.09)
    assert costs.tpot_sd(16, 4000) == pytest.approx(0.14)
    # Both were logged, but never together.
    assert costs.tpot_sd(64, 2000) == pytest.approx(0.14)
    assert costs.tpot_sd(1e9, 1) == pytest.approx(0.14)
    assert EngineCosts(tpot_log_sd=0.14).tpot_sd(16, 1000) == 0.14
    found = costs.tpot_sd(np.array([16.0, 256.0]), np.array([1000.0, 1000.0]))
    assert np.asarray(found).tolist() == pytest.approx([0.04, 0.14])


def test_the_range_is_kept_in_the_file(tmp_path: Path) -> None:
    logs, _ = profiles.load()
    logged = LoggedRange((1, 64), (500, 2000), (500, 64_000), 0.04, "a deployment")
    told = profiles.ProfileEvidence(9, "0", "a log", (), {}, logged)
    path = profiles.write("vllm", logs, np.zeros(len(logs)), told, tmp_path / "own.yaml")
    own = profiles.profile_of(engine_named("vllm"), path)
    assert own.logged == logged
    assert own.source == str(path)
    assert profiles.profile_of(engine_named("vllm")).logged is None
