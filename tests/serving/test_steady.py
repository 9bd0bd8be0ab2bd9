"""The steady state of a server that is kept full, and the engine's time in every answer."""

from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

import roofline
from roofline.bench.calibrations import calibration_of
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.deployment import Deployment, Offload
from roofline.cost.engine_costs import EngineProfile
from roofline.cost.layout import parse as layout_of
from roofline.cost.work import Array
from roofline.errors import RooflineError
from roofline.records import replace
from roofline.serving import drafts
from roofline.serving.acceptance import parse
from roofline.serving.advice import shares
from roofline.serving.disaggregated import disaggregated
from roofline.serving.explain.figures import explain_all
from roofline.serving.paged import paged
from roofline.serving.phases import ENGINE
from roofline.serving.speculative import speculate
from roofline.serving.static import static_batch
from roofline.serving.static_batches import static_batches
from roofline.serving.steady import steady_state
from roofline.serving.workload import Workload
from roofline.study.layouts import price
from roofline.table import Result
from tests.cases import cases
from tests.serving.deployments import on

Lengths: TypeAlias = tuple[int, int]
"""Tokens of a prompt and of an answer."""
GROWING: Final = (
    *("step_s", "sequence_s", "prefill_s", "request_s", "serial_s", "front_end_s"),
    *("decode_gain", "prefill_gain"),
)
"""Constants of which more is never faster."""


def measured(model: str = "llama-3.1-8b", engine: str = "vllm", **more: Any) -> Deployment:
    found = on(model, engine=engine, **more)
    return replace(found, calibration=calibration_of("auto", found.node.gpu, engine))


def with_profile(deployment: Deployment, **constants: float) -> Deployment:
    """The deployment with other constants of its engine, added to what they are."""
    known = deployment.calibration
    assert isinstance(known, GpuCalibration)
    profile = replace(
        known.profile, **{name: getattr(known.profile, name) + v for name, v in constants.items()}
    )
    return replace(deployment, calibration=replace(known, profile=profile))


def ideal(deployment: Deployment) -> Deployment:
    """The deployment with the same kernels and no engine around them."""
    known = deployment.calibration
    assert isinstance(known, GpuCalibration)
    return replace(deployment, calibration=replace(known, profile=EngineProfile()))


def metrics(result: Result, table: str = "headline") -> dict[str, dict[str, Any]]:
    return {str(row["metric"]): row for row in result.tables[table].rows()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "engine", "batch", "prompt", "output"),
    [
        ("llama-3.1-8b", "vllm", 8, 128, 2000),
        ("llama-3.1-8b", "trtllm", 32, 128, 3000),
        ("llama-3.1-8b", "sglang", 16, 128, 2000),
        ("llama-3.1-8b", "ideal", 4, 64, 1000),
        ("qwen2.5-7b", "vllm", 16, 128, 2000),
        ("mixtral-8x7b", "vllm", 8, 128, 1500),
    ],
)
def test_analyze_and_a_simulated_closed_loop_agree_where_prefill_does_not_interrupt(
    model: str, engine: str, batch: int, prompt: int, output: int
) -> None:
    asked: dict[str, Any] = {"prompt": prompt, "output": output, "engine": engine}
    asked |= {"tp": 2} if model == "mixtral-8x7b" else {}
    lasting = metrics(roofline.analyze(model, batch=batch, **asked))
    ran = roofline.simulate(model, concurrency=batch, requests=6 * batch, **asked)
    row = next(each for each in ran.tables["headline"].rows() if each["metric"] == "tpot_s")
    for name in ("tpot_s", "tpot_steady_s"):
        ours = lasting[name]
        assert ours["value"] == pytest.approx(row["mean"], rel=0.01), name
        assert ours["low"] < row["mean"] < ours["high"]
        assert row["low"] < ours["value"] < row["high"]


def test_one_client_is_an_idle_server() -> None:
    state = steady_state(static_batch(measured(), Workload(1, 1000, 100)))
    assert state.ttft_wave_s == state.ttft_waves_s
    assert state.ttft_wave_s == pytest.approx(state.ttft_idle_s, rel=0.005)
    # Prompts of a steady state are 10 % about theirs, and kernels of more than 1,024 tokens others.
    about = (static_batch(measured(), Workload(1, each, 100)) for each in range(905, 1100, 10))
    assert state.ttft_s == pytest.approx(np.mean([each.ttft_s for each in about]), rel=0.005)
    alone = static_batch(measured(), Workload(1, 1000, 100))
    assert state.ttft_idle_s == pytest.approx(alone.ttft_s, rel=0.01)
    assert state.tpot_s == pytest.approx(alone.tpot_s, rel=0.002)


@pytest.mark.slow
def test_more_clients_are_never_faster_for_each_and_never_slower_together() -> None:
    deployment = measured()
    found = [
        steady_state(static_batch(deployment, Workload(batch, 800, 200)))
        for batch in (1, 2, 4, 8, 16, 32, 64, 128)
    ]
    tpots, rates = [each.tpot_s for each in found], [each.output_tok_s for each in found]
    assert tpots == sorted(tpots)
    assert rates == sorted(rates)


def test_a_kept_batch_obeys_littles_law() -> None:
    work = Workload(24, 700, 150)
    state = steady_state(static_batch(measured(), work))
    assert state.output_tok_s * state.latency_s == pytest.approx(24 * 150, rel=2e-3)
    assert state.latency_s == pytest.approx(state.ttft_s + 149 * state.tpot_s, rel=2e-3)


def test_waves_are_as_many_prompts_as_a_step_has_room_for() -> None:
    few = steady_state(static_batch(measured(), Workload(4, 1000, 100)))
    many = steady_state(static_batch(measured(), Workload(64, 1000, 100)))
    assert few.wave == 4
    assert 7 <= many.wave <= 8  # a budget of 8,192 tokens, less those that decode
    assert 0 < few.wave_chance < many.wave_chance < 1
    assert few.ttft_wave_s == few.ttft_waves_s
    assert many.ttft_waves_s > many.ttft_wave_s > many.ttft_s > many.ttft_idle_s


def test_a_cached_prefix_is_not_prefilled_again() -> None:
    whole, hit = (
        steady_state(static_batch(measured(), Workload(8, 4000, 200, prefix_hit=share)))
        for share in (0.0, 0.75)
    )
    assert hit.ttft_idle_s < 0.5 * whole.ttft_idle_s
    assert hit.tpot_s < whole.tpot_s
    assert hit.output_tok_s > whole.output_tok_s


def test_beyond_what_memory_holds_clients_wait() -> None:
    state = steady_state(static_batch(measured(), Workload(200, 8000, 300)))
    assert state.at_once < state.clients
    assert state.ttft_s > 10 * state.ttft_idle_s


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"model": "bert-base-uncased", "prompt": 128}, "No steady state"),
        ({"kv_cache": False, "output": 8, "prompt": 64}, "No steady state"),
        ({"offload_weights": 0.5, "output": 8}, "No steady state"),
        ({"model": "llama-3.1-70b"}, "No steady state"),
        ({"batch": 1, "output": 1}, "Steady"),
    ],
)
def test_without_a_closed_form_it_says_so_and_shows_the_static_batch(
    asked: dict[str, Any], said: str
) -> None:
    result = roofline.analyze(**asked)
    assert result.notes[0].startswith(said)
    lasting, static = metrics(result), metrics(result, "static_batch")
    assert lasting["ttft_idle_s"]["value"] > 0
    if said == "No steady state":
        assert lasting["throughput_tok_s"]["value"] == static["throughput_tok_s"]["value"]
        assert "tpot_steady_s" not in lasting


def test_the_engine_is_a_row_of_both_steps_and_a_part_of_their_shares() -> None:
    batch = static_batch(measured(), Workload(8, 1000, 200))
    costs = batch.deployment.engine_costs
    assert batch.decode[ENGINE].seconds == pytest.approx(costs.step_s + 8 * costs.sequence_s)
    assert batch.prefill[ENGINE].seconds == pytest.approx(costs.step_s + costs.prefill_s)
    assert sum(row.seconds for row in batch.decode.values()) == pytest.approx(batch.tpot_s)
    parts = shares(batch.decode)
    assert parts["engine"] == pytest.approx(batch.decode[ENGINE].seconds / batch.tpot_s)
    assert sum(parts.values()) == pytest.approx(1.0)


def test_the_engine_is_explained_by_its_constants_and_their_file() -> None:
    batch = static_batch(measured(), Workload(8, 1000, 200))
    (step, *_) = explain_all(batch)["tpot"].inputs
    row = next(each for each in step.inputs if each.name == "engine")
    assert row.formula == "c_step + c_seq · B"
    assert row.source == "hwspecs/calibrations/engines/vllm.yaml"
    known = {each.name: each.value for each in row.inputs}
    assert known["c_step"] + known["c_seq"] * known["B"] == pytest.approx(row.value)


@pytest.mark.slow
def test_an_ideal_engine_is_the_sum_of_its_kernels() -> None:
    bare = ideal(measured())
    batch = static_batch(bare, Workload(8, 1000, 200))
    assert ENGINE not in batch.decode
    assert sum(row.seconds for row in batch.decode.values()) == pytest.approx(batch.tpot_s)
    assert sum(row.seconds for row in batch.prefill.values()) == pytest.approx(batch.ttft_s)
    made = speculate(
        bare, drafts.model(on("llama-3.2-1b")), parse("0.7"), Workload(8, 500, 50), length=3
    )
    assert ENGINE not in made.verify
    assert sum(row.seconds for row in made.verify.values()) == pytest.approx(made.round.verify_s)
    pools = disaggregated(bare, bare, Workload(8, 500, 50))
    kernels = sum(row.seconds for row in pools.prefill.prefill.values())
    assert pools.overlap.prompt_s == pytest.approx(kernels)


@cache
def answers(constant: str) -> tuple[Any, Any, Any, Any]:
    """Static batch, steady state, drafted rounds and two pools; a constant is larger, or none."""
    engine = measured()
    if constant:
        engine = with_profile(engine, **{constant: 0.2 if "gain" in constant else 5e-3})
    work = Workload(16, 500, 60)
    batch = static_batch(engine, work)
    rounds = speculate(engine, drafts.model(on("llama-3.2-1b")), parse("0.7"), work, length=3)
    return batch, steady_state(batch), rounds, disaggregated(engine, engine, work)


@pytest.mark.slow
@pytest.mark.parametrize("constant", GROWING)
def test_a_larger_constant_of_the_engine_is_never_faster(constant: str) -> None:
    assert set(EngineProfile.__struct_fields__) >= set(GROWING)
    one, kept, quick, apart = answers("")
    other, worse, slower, later = answers(constant)
    assert other.ttft_s >= one.ttft_s
    assert other.tpot_s >= one.tpot_s
    assert (other.ttft_s, other.tpot_s) != (one.ttft_s, one.tpot_s)
    assert worse.ttft_idle_s >= kept.ttft_idle_s * (1 - 1e-9)
    assert worse.output_tok_s < kept.output_tok_s
    assert slower.round.tpot_s >= quick.round.tpot_s
    assert slower.ttft_s() >= quick.ttft_s()
    for name in ("prefill_s", "ttft_s", "tpot_s", "prompt_s", "answer_s"):
        assert getattr(later.overlap, name) >= getattr(apart.overlap, name) * (1 - 1e-12)


@pytest.mark.slow
def test_a_round_is_one_step_of_the_engine() -> None:
    target, work = measured(), Workload(8, 500, 50)
    bare = ideal(target)
    draft, rate = drafts.model(on("llama-3.2-1b")), parse("0.7")
    costs = target.engine_costs
    rounds = [speculate(target, draft, rate, work, length=length).round for length in (1, 5)]
    plain = static_batch(target, work)
    for each in rounds:
        assert each.step_s == pytest.approx(plain.tpot_s)
        software = each.verify_s - costs.step_s - costs.sequence_s * 8
        assert software > 0.8 * costs.decode_gain * static_batch(bare, work).tpot_s * 0.8
    # Further passes of the draft add their kernels and nothing of the engine.
    draft_s = rounds[1].draft_s - rounds[0].draft_s
    alone = speculate(bare, draft, rate, work, length=5).round.draft_s
    alone -= speculate(bare, draft, rate, work, length=1).round.draft_s
    assert draft_s <= alone * 1.05


@pytest.mark.slow
def test_a_draft_that_is_never_right_only_costs() -> None:
    target, work = measured(), Workload(8, 500, 50)
    made = speculate(target, drafts.model(on("llama-3.2-1b")), parse("0"), work, length=3)
    assert made.round.tokens == 1.0
    assert made.round.tpot_s > made.plain.tpot_s
    assert made.round.speed_up < 1.0


def test_requests_arrive_once_in_pools() -> None:
    deployment, work = measured(), Workload(8, 500, 50)
    pools, costs = disaggregated(deployment, deployment, work), deployment.engine_costs
    one = static_batch(deployment, replace(work, batch=1))
    assert pools.overlap.prefill_s == pytest.approx(one.ttft_s)
    together = static_batch(deployment, work)
    assert pools.overlap.step_s == pytest.approx(together.tpot_s)
    whole = costs.arrival_s + sum(row.seconds for row in one.prefill.values())
    assert pools.overlap.prefill_s == pytest.approx(whole)


def errors(deployment: Deployment, batches: Iterable[int], lengths: Iterable[Lengths]) -> Array:
    """Relative errors of TPOT, throughput and idle TTFT of the columns from the closed form."""
    off = []
    for prompt, output in lengths:
        work = Workload(1, prompt, output)
        for batch in batches:
            state = steady_state(static_batch(deployment, replace(work, batch=batch)))
            if state.at_once < batch:
                continue
            found = static_batches(deployment, work, np.array([float(batch)])).steady
            columns = np.array([found.tpot_s, found.output_tok_s, found.ttft_idle_s])[:, 0]
            off.append(columns / [state.tpot_s, state.output_tok_s, state.ttft_idle_s] - 1.0)
    return np.array(off)


@pytest.mark.slow
def test_columns_are_near_the_closed_form() -> None:
    lengths = ((200, 1000), (1000, 200), (4000, 500), (500, 100))
    found = np.abs(errors(measured(), (1, 8, 32, 128), lengths))
    assert np.median(found, axis=0).max() < 0.005
    tpot, rate, idle = found.max(axis=0)
    assert tpot < 0.04
    assert rate < 0.04
    assert idle < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "asked", "median", "most"),
    [
        ("llama-3.1-8b", {"engine": "sglang"}, 0.01, 0.03),
        ("llama-3.1-8b", {"engine": "trtllm"}, 0.01, 0.07),
        ("mixtral-8x7b", {"tp": 2}, 0.01, 0.11),
    ],
)
def test_columns_of_other_engines_and_of_experts_are_near_the_closed_form(
    model: str, asked: dict[str, Any], median: float, most: float
) -> None:
    lengths = ((200, 200), (1000, 200), (500, 100))
    found = np.abs(errors(measured(model, **asked), (4, 32, 128), lengths))[:, :2]
    assert np.median(found, axis=0).max() < median
    assert found.max() < most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "layout"),
    cases(
        [("vllm", "dp8-ep8"), ("sglang", "tp2-dp4-ep8"), ("trtllm", "dp8-ep8")],
        list(product(("vllm", "sglang", "trtllm"), ("dp8-ep8", "tp2-dp4-ep8"))),
    ),
)
def test_columns_of_attention_data_parallelism_are_near_the_closed_form(
    engine: str, layout: str
) -> None:
    how = {"device": "h200-sxm", "layout": layout_of(layout), "weights": "fp8"}
    deployment = measured("deepseek-v3", engine, **how)
    lengths = ((4000, 1000), (1000, 500), (300, 300))
    found = np.abs(errors(deployment, (1, 16, 128), lengths))
    tpot, _, idle = found.max(axis=0)
    assert tpot < 0.08
    assert idle < 1e-12


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("layout", ["dp8-ep8", "tp8-ep8"])
@pytest.mark.parametrize("prompt", [500, 4000])
def test_a_prompt_alone_has_one_price(engine: str, layout: str, prompt: int) -> None:
    """Analysis, layouts, a sweep, a derivation and one request that is simulated."""
    asked: dict[str, Any] = {"engine": engine, "prompt": prompt, "output": 16}
    model, gpu = "deepseek-v3", "h200-sxm"
    result = roofline.analyze(model, gpu, layout=layout, **asked)
    idle = metrics(result)["ttft_idle_s"]["value"]
    rows = roofline.layouts(model, gpu, gpus=8, **asked).tables["layouts"].rows()
    (row,) = (row for row in rows if row["layout"] == layout)
    assert row["ttft_idle_s"] == pytest.approx(idle, rel=1e-12)
    told = result.derivations["ttft_idle"]
    parts = {each.name: each.value for each in told.inputs}
    whole = parts["arrival"] + parts["chunks"] * parts["prefill step"]
    assert (told.value, whole) == pytest.approx((idle, idle), rel=1e-12)
    run = roofline.simulate(
        model, gpu, layout=layout, concurrency=1, requests=1, length_spread=0, **asked
    )
    assert run.ttft_mean.value == pytest.approx(idle, rel=0.02)  # between points of tables


def test_prompts_share_the_reading_of_weights_with_those_that_decode() -> None:
    work = Workload(16, 200, 200)
    batches = np.array([1.0, 16.0])
    shared = static_batches(measured(), work, batches)
    assert shared.decode is not None
    assert (shared.prompts.first_s < shared.few.busy_s[:, 0]).all()
    assert shared.prompts.first_s[0] == pytest.approx(
        float(shared.few.busy_s[0, 0]) - float(shared.decode.shared_s[0, 0])
    )
    # Steps that only prefill read them by themselves.
    alone = static_batches(measured(engine="sglang"), work, batches)
    assert alone.prompts.first_s == pytest.approx(float(alone.few.busy_s[0, 0]))
    for each in (shared, alone):
        times = each.prompts
        together = each.few.busy_s[0, 0] + times.second_s[1] + 14.0 * times.further_s[1]
        assert together == pytest.approx(each.first.busy_s[1, 0])


def test_what_cannot_be_offloaded_ahead_has_no_closed_form() -> None:
    deployment = replace(on(), offload=Offload(weights=0.5))
    with pytest.raises(RooflineError, match="hidden behind"):
        steady_state(static_batch(deployment, Workload(4, 100, 20)))


@pytest.mark.parametrize(("batch", "prompt", "output"), [(8, 1000, 200), (64, 1000, 200)])
def test_a_simulated_loop_of_lengths_that_vary_has_the_steady_ttft(
    batch: int, prompt: int, output: int
) -> None:
    lasting = metrics(roofline.analyze(batch=batch, prompt=prompt, output=output))
    ran = roofline.simulate(
        concurrency=batch,
        prompt=f"{prompt * 9 // 10}..{prompt * 11 // 10}",
        output=f"{output * 9 // 10}..{output * 11 // 10}",
        requests=20 * batch,
        warmup=8 * batch,
        with_intervals=False,
    )
    found = {row["metric"]: row["mean"] for row in ran.tables["headline"].rows()}
    assert lasting["ttft_steady_s"]["value"] == pytest.approx(found["ttft_s"], rel=0.08)
    assert lasting["tpot_steady_s"]["value"] == pytest.approx(found["tpot_s"], rel=0.02)


@pytest.mark.slow
def test_paging_and_layouts_have_the_engine_in_their_throughput() -> None:
    base, work = measured(), Workload(16, 500, 60)
    slow, bare = with_profile(base, step_s=5e-3, prefill_s=5e-3), ideal(base)
    rates = [max(scheme.tok_s for scheme in paged(each, work).schemes) for each in (bare, base)]
    assert max(scheme.tok_s for scheme in paged(slow, work).schemes) < rates[1] < rates[0]
    quick, later = (price(each, work, 2) for each in (base, slow))
    assert (later.tpot_s > quick.tpot_s).all()
    assert (later.ttft_s > quick.ttft_s).all()
    assert np.all(later.ttft_idle_s > quick.ttft_idle_s)
    assert np.all(later.steady_tok_s < quick.steady_tok_s)


@pytest.mark.slow
def test_layouts_in_the_steady_state_are_what_analyze_says_of_each() -> None:
    rows = roofline.layouts(gpus=2, batch=8, prompt=1000, output=400).tables["layouts"].rows()
    for row in rows:
        lasting = metrics(
            roofline.analyze(gpus=2, layout=row["layout"], batch=8, prompt=1000, output=400)
        )
        assert row["ttft_idle_s"] == pytest.approx(lasting["ttft_idle_s"]["value"], rel=1e-12)
        assert row["tpot_steady_s"] == pytest.approx(lasting["tpot_steady_s"]["value"], rel=0.03)


@pytest.mark.slow
def test_both_orders_of_layouts_are_one() -> None:
    asked: dict[str, Any] = {"gpus": 4, "batch": 8, "prompt": 1000, "output": 100}
    steady, static = (
        list(roofline.layouts(rank=rank, **asked).tables["layouts"].rows())
        for rank in ("steady", "static")
    )
    assert [row["layout"] for row in steady] == [row["layout"] for row in static]
    assert "tpot_steady_s" in steady[0]
    assert "tpot_steady_s" not in static[0]
