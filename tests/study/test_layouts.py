"""Choosing a layout: all that can be are found, priced as they are alone, and the best one wins."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.bench.calibrations import calibration_of
from roofline.cost.deployment import Deployment, Options
from roofline.cost.layout import Layout
from roofline.errors import InputError, LayoutError
from roofline.hardware.catalog import node
from roofline.hardware.engine import engine
from roofline.model.catalog import architecture
from roofline.model.precision import resolve
from roofline.records import replace
from roofline.serving.room import memory_of
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.study.choice import OBJECTIVES, choose, ranked
from roofline.study.layouts import LayoutFigures, candidates, degrees, filled, price

H100 = node("hgx-h100-8").gpu
WORK = Workload(batch=24, prompt=700, output=90)


def base(model: str, box: str = "hgx-h100-8") -> Deployment:
    network, where = architecture(model), node(box)
    formats = network.formats
    precision = resolve(network.weight_format, "auto", where.gpu, also=formats)
    return Deployment(network, where, precision, engine("vllm"))


def found(deployment: Deployment, gpus: int) -> list[Layout]:
    """Layouts of the enumeration, one by one."""
    out = []
    some = (deployment.architecture, deployment.node, gpus, deployment.options, deployment.engine)
    for axis in candidates(*some):
        columns = zip(*(np.asarray(n) for n in (axis.tp, axis.cp, axis.dp, axis.ep)), strict=True)
        out += [
            Layout(tp, cp, dp, ep, pp=axis.pp, sequence_parallel=axis.sequence_parallel)
            for tp, cp, dp, ep in columns
        ]
    return out


@pytest.mark.parametrize(
    ("model", "gpus"),
    [("llama-3.1-8b", 8), ("mixtral-8x7b-v0.1", 12), ("deepseek-v3", 16), ("qwen3-30b-a3b", 6)],
)
def test_the_layouts_found_are_those_that_can_be_deployed(model: str, gpus: int) -> None:
    deployment = base(model)
    mine = found(deployment, gpus)
    assert len(mine) == len(set(mine))
    possible = set()
    tried = degrees(gpus)
    for tp, cp, dp, ep, pp in product(tried, repeat=5):
        for parallel in {False, tp > 1}:
            layout = Layout(tp, cp, dp, ep, pp, sequence_parallel=parallel)
            if layout.devices > gpus:
                continue
            try:
                replace(deployment, layout=layout)
            except LayoutError:
                continue
            possible.add(layout)
    assert set(mine) == possible


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gemma-2-9b", "deepseek-v2-lite", "qwen3-30b-a3b"])
def test_each_is_priced_as_it_is_alone(model: str) -> None:
    deployment = base(model)
    priced = price(deployment, WORK, 16)
    random = np.random.default_rng(3)
    for number in random.choice(len(priced), 25, replace=False):
        alone = replace(deployment, layout=priced.layout(int(number)))
        batch = static_batch(alone, WORK)
        assert priced.ttft_s[number] == pytest.approx(batch.ttft_s, rel=1e-9)
        assert priced.tpot_s[number] == pytest.approx(batch.tpot_s, rel=1e-9)
        held = memory_of(alone, batch.workload, None)
        assert priced.weights[number] == pytest.approx(held.weights, rel=1e-12)
        assert priced.free[number] == pytest.approx(held.free, rel=1e-9, abs=1.0)
        assert bool(priced.fits[number]) is held.fits
        rate = batch.throughput_tok_s * (16 // batch.devices)
        assert priced.throughput_tok_s[number] == pytest.approx(rate, rel=1e-9)


@pytest.mark.slow
def test_the_first_of_an_order_is_the_best_that_fits() -> None:
    deployment = base("mixtral-8x7b-v0.1")
    priced = filled(deployment, price(deployment, WORK, 8), WORK)
    values = {
        "latency": priced.latency_s,
        "throughput": -priced.filled_tok_s,
        "cost": priced.devices * priced.replicas / np.maximum(priced.filled_tok_s, 1.0),
    }
    for objective in OBJECTIVES:
        order = ranked(priced, objective)
        assert len(order) == priced.fits.sum() < len(priced)
        assert np.all(priced.fits[order])
        best = values[objective][order]
        assert best[0] == pytest.approx(values[objective][priced.fits].min(), rel=1e-8)
        assert np.all(np.diff(best) >= -1e-8 * np.abs(best[1:]))


def test_the_cheapest_may_leave_gpus_idle_and_says_so() -> None:
    # Five GPUs hold one replica on four, or five on one each: heads divide by neither 5 nor 3.
    chosen = choose(base("llama-3.1-70b"), WORK, 5, "latency")
    assert chosen.layout.devices == 4
    assert "1 GPUs stay idle" in chosen.reason
    with pytest.raises(LayoutError, match="none of"):
        choose(base("llama-3.1-405b"), WORK, 2)


def test_the_reason_names_the_best_and_another() -> None:
    deployment = base("llama-3.1-70b")
    chosen = choose(deployment, WORK, 8)
    assert chosen.reason.startswith(f"{chosen.layout} has the least latency of ")
    alone = static_batch(replace(deployment, layout=chosen.layout), WORK)
    assert f"{alone.latency_s:.3g}"[:4] in chosen.reason
    assert "; " in chosen.reason
    with pytest.raises(InputError, match="objective"):
        choose(deployment, WORK, 8, "speed")  # type: ignore[arg-type]


def test_the_reason_says_where_it_passes_over_a_variant_of_the_best() -> None:
    deployment = base("llama-3.1-70b")
    priced = price(deployment, WORK, 8)
    order = [int(number) for number in ranked(priced, "latency")]
    first, second = (priced.layout(number) for number in order[:2])
    assert replace(second, sequence_parallel=first.sequence_parallel) == first
    other = next(
        found
        for found in map(priced.layout, order)
        if replace(found, sequence_parallel=first.sequence_parallel) != first
    )
    said = choose(deployment, WORK, 8).reason
    assert f"; {other}, the next of other degrees, has " in said


@pytest.mark.slow
@pytest.mark.parametrize("rates", ["none", "auto"])
def test_analyze_takes_the_layout_that_is_chosen(rates: str) -> None:
    asked: dict[str, Any] = {"gpus": 16, "objective": "throughput", "calibration": rates}
    chosen = roofline.analyze("llama-3.1-70b", layout="auto", **asked)
    table = roofline.layouts("llama-3.1-70b", **asked)
    first = next(iter(table.tables["layouts"].rows()))
    assert chosen.metadata["layout"] == first["layout"]
    assert chosen.metadata["replicas"] == first["replicas"]
    by_name = {row["metric"]: row["value"] for row in chosen.tables["static_batch"].rows()}
    assert by_name["throughput_tok_s"] == pytest.approx(first["throughput_tok_s"], rel=1e-4)
    assert "sequences in each replica" in chosen.metadata["summary"][0]
    assert chosen.metadata["summary"][0] in table.metadata["summary"]


def test_a_box_without_network_has_layouts_inside_it() -> None:
    network = architecture("llama-3.1-8b")
    box = node("rtx-4090-pcie-8")
    assert box.network is None
    every = list(candidates(network, box, 64, Options(), engine("vllm")))
    assert max(float(np.max(axis.devices)) for axis in every) == 8


def test_no_layout_is_proposed_that_an_engine_lacks() -> None:
    whole = base("qwen3-30b-a3b")
    own = replace(whole, engine=engine("llamacpp"))
    assert {each.spelled for each in found(own, 8)} == {
        *("tp1", "tp2", "tp4", "tp8"),
        *("pp2", "pp4", "pp8"),
    }
    assert {"dp8-ep8", "tp4-pp2", "tp4-sp"} < {each.spelled for each in found(whole, 8)}


@pytest.mark.parametrize("layout", [Layout(dp=8, ep=8), Layout(tp=4, pp=2), Layout(cp=2)])
def test_a_layout_that_an_engine_lacks_is_refused(layout: Layout) -> None:
    with pytest.raises(LayoutError) as refused:
        replace(base("qwen3-30b-a3b"), engine=engine("llamacpp"), layout=layout)
    assert refused.value.message == (
        f"llama.cpp has no layout {layout}: it splits a network by tp or by pp"
    )


def test_concatenation_keeps_every_column() -> None:
    priced = price(base("llama-3.1-8b"), Workload(batch=1, prompt=32, output=1), 4)
    assert isinstance(priced, LayoutFigures)
    assert np.all(priced.tpot_s == 0)
    assert {len(getattr(priced, name)) for name in LayoutFigures.__struct_fields__} == {len(priced)}
    assert np.all(np.isnan(priced.largest))


@pytest.mark.slow
def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    deployment = base("qwen3-30b-a3b")
    priced = filled(deployment, price(deployment, WORK, 8), WORK)
    random = np.random.default_rng(5)
    for number in random.choice(np.flatnonzero(priced.fits), 12, replace=False):
        alone = replace(deployment, layout=priced.layout(int(number)))
        batch = int(priced.largest[number])
        assert not static_batch(alone, replace(WORK, batch=batch + 1)).memory.fits
        full = static_batch(alone, replace(WORK, batch=batch))
        assert full.memory.fits
        rate = full.throughput_tok_s * (8 // full.devices)
        assert priced.filled_tok_s[number] == pytest.approx(rate, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "gpus"), [("llama-3.1-70b", 16), ("mixtral-8x7b", 16), ("deepseek-v3", 16)]
)
def test_measured_layouts_are_priced_together_as_each_is_alone(model: str, gpus: int) -> None:
    deployment = replace(base(model), calibration=calibration_of("auto", H100, "vllm"))
    priced = price(deployment, WORK, gpus)
    every = np.random.default_rng(7).permutation(len(priced))[:24]
    for number in map(int, every):
        alone = static_batch(replace(deployment, layout=priced.layout(number)), WORK)
        assert priced.ttft_s[number] == pytest.approx(alone.ttft_s, rel=1e-9)
        assert priced.tpot_s[number] == pytest.approx(alone.tpot_s, rel=1e-9)
        assert priced.ttft_log_sd[number] == pytest.approx(alone.ttft_log_sd, rel=1e-9)
        assert priced.tpot_log_sd[number] == pytest.approx(alone.tpot_log_sd, rel=1e-9)


@pytest.mark.slow
def test_one_prompt_on_an_idle_layout_is_priced_as_it_is_alone() -> None:
    """Rows of an operator may have different kernels: each has its own beside any others."""
    deployment = replace(base("llama-3.1-70b"), calibration=calibration_of("auto", H100, "vllm"))
    work = Workload(16, 2048, 256, prefill_batch=3, prefix_hit=0.3)
    priced = price(deployment, work, 32)
    one = replace(work, batch=1, prefill_batch=1)
    for number in range(0, len(priced), 5):
        alone = static_batch(replace(deployment, layout=priced.layout(number)), one)
        assert priced.ttft_idle_s[number] == pytest.approx(alone.ttft_s, rel=1e-12)


@pytest.mark.slow
def test_layouts_are_spelled_together_as_one_by_one() -> None:
    priced = price(base("deepseek-v3", "hgx-h200-8"), WORK, 32)
    some = np.arange(len(priced))[::-3]
    assert priced.spelled(some) == [priced.layout(number).spelled for number in some]
