"""Points priced together are what static batches of them are, one by one."""

from typing import Any

import numpy as np
import pytest

from roofline.cost.deployment import Offload, Options
from roofline.records import replace
from roofline.serving import room
from roofline.serving.static import CENTRAL, StaticBatch, static_batch
from roofline.serving.static_batches import APPROXIMATE, static_batches
from roofline.study.sweep.columns import FIGURES, SPREADS, FigureColumns, price
from roofline.study.sweep.points import Axes, Axis, SweepSlice
from roofline.study.sweep.prices import priced, within
from roofline.table import BASES
from tests.cases import cases
from tests.study.sweep.lanes import alone, lane, numbers

CASES: dict[str, dict[str, Any]] = {
    "dense": {"model": "llama-3.1-8b"},
    "another generation": {"model": "llama-3.1-8b", "gpu": "b200-sxm", "engine": "sglang"},
    "no kernels": {"model": "llama-3.1-8b", "gpu": "gaudi3"},
    "datasheet": {"model": "llama-3.1-8b", "calibration": "none", "weights": "fp8"},
    "pipeline": {"model": "llama-3.1-70b", "layout": "tp4-pp2", "weights": "fp8"},
    "context parallel": {"model": "llama-3.1-70b", "layout": "tp2-cp2-pp2-sp", "kv": "fp8"},
    "prefill steps": {"model": "llama-3.1-8b", "prefill_batch": 5},
    "cached prompts": {"model": "llama-3.1-8b", "prefix_hit": 0.5, "utilization": 0.8},
    "experts": {"model": "qwen3-30b-a3b", "layout": "tp2-dp2-ep4"},
    "latent": {"model": "deepseek-v3", "gpu": "h200-sxm", "layout": "tp1-dp8-ep8"},
    "latent, stages": {"model": "deepseek-v3", "gpu": "h200-sxm", "layout": "tp8-pp2"},
    "chosen keys": {"model": "deepseek-v3.2", "gpu": "h200-sxm", "layout": "tp1-dp8-ep8"},
    "windows": {"model": "gpt-oss-120b", "layout": "tp2", "engine": "trtllm"},
    "a window between two nodes": {
        "model": "phi-3-mini-4k-instruct",
        "prompt": (1, 100, 1990, 2100),
        "output": (1, 2, 40, 1500),
    },
    "chunks": {"model": "llama-4-scout", "layout": "tp8"},
    "hybrid": {"model": "nemotron-h-8b", "layout": "tp2"},
    "offload": {
        "model": "llama-3.1-70b",
        "layout": "tp2",
        "deployment": {"offload": Offload(weights=0.5, kv=0.2)},
    },
    "overlap": {
        "model": "llama-3.1-70b",
        "layout": "tp8",
        "deployment": {"options": Options(overlap=0.5)},
    },
    "no cache": {"model": "llama-3.1-8b", "kv_cache": False, "output": (1, 2, 40)},
    "encoder": {"model": "bert-base-uncased", "gpu": "a100-sxm", "prompt": (1, 100, 500)},
}


def told(batch: StaticBatch) -> dict[str, float]:
    """Figures of a static batch by column, and of a server that is kept full with as many."""
    one = static_batch(batch.deployment, replace(batch.workload, batch=1, prefill_batch=0))
    work, costs = batch.workload, batch.deployment.engine_costs
    steady = np.nan
    if batch.tpot_s and work.kv_cache:
        alike = static_batches(batch.deployment, work, np.array([float(work.batch)]))
        steady = float(np.asarray(alike.steady.tpot_s)[0])
    share = batch.tpot_s / steady
    known = (1 - share) * batch.ttft_log_sd + share * batch.tpot_log_sd
    known = max(known, costs.tpot_log_sd)
    spreads = {
        "ttft_idle_log_sd": one.ttft_log_sd,
        "tpot_steady_log_sd": np.hypot(known, APPROXIMATE) if known > 0 else 0.0,
        "ttft_log_sd": batch.ttft_log_sd,
        "tpot_log_sd": batch.tpot_log_sd,
        "latency_log_sd": batch.latency_log_sd,
    }
    figures = {
        "ttft_s": batch.ttft_s,
        "ttft_idle_s": one.ttft_s,
        "tpot_steady_s": steady,
        "tpot_s": batch.tpot_s or np.nan,
        "latency_s": batch.latency_s,
        "throughput_tok_s": batch.throughput_tok_s,
        "throughput_per_gpu_tok_s": batch.throughput_tok_s / batch.devices,
        "user_tok_s": batch.user_tok_s or np.nan,
        "usd_per_mtok": batch.usd_per_mtok or np.nan,
        "joule_per_mtok": batch.joule_per_mtok,
    }
    ends: dict[str, float] = {}
    for name, spread in SPREADS.items():
        wide = np.exp(CENTRAL * spreads[spread]) if spreads[spread] else np.nan
        ends |= {f"{name}_low": figures[name] / wide, f"{name}_high": figures[name] * wide}
    ops = [*batch.prefill.values(), *batch.decode.values()]
    memory = {
        "memory_bytes": batch.memory.budget - batch.memory.free,
        "free_bytes": batch.memory.free,
        "basis": float(max(BASES.index(op.basis) for op in ops)),
    }
    return figures | spreads | ends | memory


def some_of(where: SweepSlice) -> tuple[FigureColumns, Any, list[int]]:
    """A lane's points inside the network's context, and four of them, or ten."""
    asked = numbers(where)
    inside = within(where.deployment.architecture, asked["prompt"], asked["output"])
    asked = {name: column[inside] for name, column in asked.items()}
    count = len(asked["batch"])
    rows = np.random.default_rng(count).choice(count, min(cases(4, 10), count), replace=False)
    return price(priced(where), asked), asked, rows.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_row_of_a_sweep_is_the_static_batch_of_that_row(case: str) -> None:
    where = lane(**CASES[case])
    columns, asked, rows = some_of(where)
    for row in rows:
        batch = alone(where, {**asked, "output": columns["output"]}, row)
        for name, value in told(batch).items():
            found = columns[name][row]
            assert found == pytest.approx(value, rel=1e-12, abs=1e-15, nan_ok=True), (name, row)
        assert columns["fits"][row] == room.fits(where.deployment, batch.memory)


def test_what_binds_is_what_binds_most_of_the_time() -> None:
    where = lane("llama-3.1-70b", layout="tp4", weights="fp8")
    columns, asked, rows = some_of(where)
    for row in rows:
        batch = alone(where, asked, row)
        for name, ops in (("prefill_bound", batch.prefill), ("decode_bound", batch.decode)):
            took = dict.fromkeys(("compute", "memory", "wire", "host", "engine"), 0.0)
            for op in ops.values():
                took[op.bound] += op.seconds
            largest = max(took, key=lambda bound: took[bound])
            expected = list(took).index(largest) if ops else -1
            assert columns[name][row] == expected, (name, row)


def test_a_part_of_a_lane_has_the_figures_of_the_whole() -> None:
    where = lane("llama-3.1-8b")
    asked = numbers(where)
    whole = price(priced(where), asked)
    part = price(priced(where), {name: each[7:23] for name, each in asked.items()})
    taken = whole.taken(np.arange(7, 23))
    for name in whole:
        if name != "index":
            assert np.array_equal(part[name], whole[name][7:23], equal_nan=True), name
            assert np.array_equal(taken[name], part[name], equal_nan=True), name


def test_points_in_any_order_have_the_figures_of_those_in_order() -> None:
    """Points of all batches, prompts and outputs are known by axis, others one by one."""
    where = lane("gpt-oss-20b", layout="tp2-pp2")
    points = numbers(where)
    order = np.random.default_rng(0).permutation(len(points["batch"]))
    whole = price(priced(where), points)
    mixed = price(priced(where), {name: values[order] for name, values in points.items()})
    chosen = whole.taken(order)
    assert whole.points.shape == (4, 4, 4)
    assert mixed.points.shape == (64,)
    for name in set(FIGURES) - {"index"}:
        np.testing.assert_array_equal(mixed[name], whole[name][order], name)
        np.testing.assert_array_equal(chosen[name], whole[name][order], name)


def test_replicas_multiply_throughput_and_devices_alone() -> None:
    one, three = lane("llama-3.1-8b"), lane("llama-3.1-8b", replicas=3)
    asked = numbers(one)
    a, b = (price(priced(each), asked) for each in (one, three))
    assert b["gpus"].tolist() == (3 * a["gpus"]).tolist()
    assert b["throughput_tok_s"] == pytest.approx(3 * a["throughput_tok_s"])
    for name in ("ttft_s", "usd_per_mtok", "throughput_per_gpu_tok_s", "joule_per_mtok"):
        assert np.array_equal(a[name], b[name]), name


def test_more_work_is_never_faster_at_published_rates() -> None:
    where = lane("llama-3.1-8b", calibration="none")
    columns = price(priced(where), numbers(where))
    axes = where.axes
    shape = tuple(len(axis.nodes) for axis in (axes.batch, axes.prompt, axes.output))
    for axis in range(3):
        for name in ("latency_s", "memory_bytes"):
            assert np.all(np.diff(columns[name].reshape(shape), axis=axis) >= 0), (axis, name)


@pytest.mark.slow
def test_axes_of_many_values_are_priced_between_some_of_them() -> None:
    """A sweep of millions of points of one deployment takes no longer than one of thousands."""
    where = lane("llama-3.1-8b")
    axes = Axes(Axis.between(1, 400), Axis.between(1, 16_000), Axis.between(1, 500), 10**9)
    where = replace(where, axes=axes)
    random = np.random.default_rng(0)
    asked = {
        "batch": np.floor(random.uniform(1, 401, 30)),
        "prompt": np.floor(random.uniform(1, 16_001, 30)),
        "output": np.floor(random.uniform(2, 501, 30)),
    }
    found = price(priced(where), asked)
    assert len(found.prices.lane.axes.batch.nodes) < 200
    for row in range(30):
        batch = alone(where, asked, row)
        for name in ("ttft_s", "tpot_s", "latency_s"):
            assert found[name][row] == pytest.approx(getattr(batch, name), rel=0.02), name
        assert found["free_bytes"][row] == pytest.approx(batch.memory.free, rel=1e-12)


def test_a_small_lane_is_priced_once_whatever_part_is_asked() -> None:
    where = lane("llama-3.1-8b", batch=(1, 4), prompt=(100, 200), output=(1, 20))
    asked = numbers(where)
    whole = price(priced(where), asked)
    for row in range(len(asked["batch"])):
        part = price(priced(where), {name: each[[row]] for name, each in asked.items()})
        for name in whole:
            if name != "index":
                assert np.array_equal(part[name], whole[name][[row]], equal_nan=True), name
