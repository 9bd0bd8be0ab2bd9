"""Prefill and decode on pools of their own: what users feel, memory, mistakes, what is shown."""

from math import ceil, inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.bench.calibrations import calibration_of
from roofline.cost.memory import MemoryBudget, kv_bytes_per_sequence
from roofline.errors import InputError, LayoutError
from roofline.hardware.machine import Link
from roofline.model.architecture import Architecture
from roofline.records import replace
from roofline.serving.disaggregated import PoolPair, disaggregated
from roofline.serving.disaggregated_result import result_of
from roofline.serving.explain.disaggregated import explain_all
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from tests.cases import examples
from tests.cost.networks import NODE, dense, deployed, networks
from tests.serving.deployments import on
from tests.serving.pooled import laid_out, networked

SEVERAL = settings(max_examples=examples(40), deadline=None)
WORK = Workload(64, 2048, 256)
FREE = Link("infiniband", bytes_per_s=1e300)


@pytest.mark.slow
@SEVERAL
@given(networks(), st.integers(1, 9), st.integers(1, 200), st.integers(2, 50))
def test_equal_pools_on_free_wires_are_prefill_then_decode(
    network: Architecture, batch: int, prompt: int, output: int
) -> None:
    network = replace(network, causal=True)
    instance = networked(deployed(network), FREE)
    work = Workload(batch, prompt, output)
    pools = disaggregated(instance, instance, work)
    alone = static_batch(instance, replace(work, prefill_batch=1))
    one = static_batch(instance, replace(work, batch=1, output=1))
    got = pools.overlap
    assert got.prefill_s == one.ttft_s
    assert got.step_s == pytest.approx(alone.tpot_s, rel=1e-12)
    assert got.ttft_s == pytest.approx(one.ttft_s + alone.tpot_s, rel=1e-12)
    assert got.latency_s == pytest.approx(one.ttft_s + alone.tpot_s * (output - 1), rel=1e-12)
    assert pools.serial.latency_s == pytest.approx(
        one.ttft_serial_s + alone.tpot_serial_s * (output - 1), rel=1e-12
    )
    # Divided at will, the pools serve what the static batch does on as many devices.
    device_s = pools.prefill.devices / got.prompts_per_s + pools.decode.devices / got.answers_per_s
    assert got.output / device_s == pytest.approx(alone.throughput_tok_s, rel=1e-12)
    assert pools.split.utilisation(got) == pytest.approx(0.0, abs=1e-200)


def test_more_network_is_never_slower() -> None:
    first, rest = laid_out("tp2"), laid_out("tp4")
    wires = first.node.network
    assert wires is not None
    last: PoolPair | None = None
    for overlapped in (False, True):
        for factor in (0.001, 0.01, 0.1, 1.0, 10.0, 1000.0):
            network = replace(wires, bytes_per_s=factor * wires.bytes_per_s)
            ends = networked(first, network), networked(rest, network)
            pools = disaggregated(*ends, WORK, gpus=24, overlapped=overlapped)
            for at in ("overlap", "serial"):
                now = getattr(pools, at)
                before = getattr(last, at) if last and factor > 0.001 else now
                assert now.prefill_s == before.prefill_s
                assert now.tpot_s == before.tpot_s
                assert now.ttft_s <= before.ttft_s
                assert now.latency_s <= before.latency_s
            if last and factor > 0.001:
                assert pools.tok_s(pools.overlap) >= last.tok_s(last.overlap)
            last = pools


@pytest.mark.slow
def test_a_slow_network_binds_and_says_so() -> None:
    slow = Link("ethernet", bytes_per_s=1.25e8)
    first, rest = (networked(laid_out(layout), slow) for layout in ("tp2", "tp4"))
    pools = disaggregated(first, rest, WORK, gpus=6)
    needed, given_ = pools.wire_bytes_per_s(pools.overlap)
    assert pools.split.utilisation(pools.overlap) == needed / given_ > 1
    assert pools.split.requests_per_s(pools.overlap) == pytest.approx(
        given_ / pools.transfer.prompt_bytes
    )
    summary = result_of(pools).metadata["summary"]
    assert any("The network binds" in sentence for sentence in summary)
    assert any("the links set the pace" in sentence for sentence in summary)


def test_sending_by_layer_shows_in_the_overlapped_bound_only() -> None:
    first, rest = laid_out("tp2"), laid_out("tp4")
    after = disaggregated(first, rest, WORK)
    during = disaggregated(first, rest, WORK, overlapped=True)
    assert during.overlap.transfer_s < after.overlap.transfer_s / 10
    assert during.serial == after.serial
    assert after.overlap.transfer_s == after.serial.transfer_s == after.transfer.seconds


def test_each_stage_sends_its_own_layers_while_it_computes() -> None:
    # Slow enough that sending a layer takes longer than computing it.
    slow = Link("ethernet", bytes_per_s=1e9)
    first, rest = (networked(laid_out(layout), slow) for layout in ("tp2-pp2", "tp4"))
    pools = disaggregated(first, rest, WORK, overlapped=True)
    sent = pools.transfer.seconds / 16  # of 32 layers, 16 in each stage
    computed = pools.overlap.prefill_s / 32
    assert sent > computed
    assert pools.overlap.transfer_s == pytest.approx(16 * sent - 15 * computed, rel=0.01)


def test_a_pipeline_takes_prompts_as_fast_as_its_slowest_stage() -> None:
    one = disaggregated(laid_out("tp2"), laid_out("tp4"), WORK).overlap
    two = disaggregated(laid_out("tp2-pp2"), laid_out("tp4"), WORK).overlap
    assert two.prefill_s == pytest.approx(one.prefill_s, rel=0.01)
    assert two.prompt_s == pytest.approx(one.prompt_s / 2, rel=0.05)


def test_phases_add_up() -> None:
    got = disaggregated(laid_out("tp2"), laid_out("tp4"), WORK).overlap
    assert got.ttft_s == got.prefill_s + got.transfer_s + got.step_s
    assert got.latency_s == pytest.approx(got.ttft_s + (WORK.output - 1) * got.tpot_s)
    assert got.answers_per_s == pytest.approx(WORK.batch / (got.step_s * (WORK.output - 1)))
    assert got.prompts_per_s == pytest.approx(1 / got.prefill_s)


# --- memory


def test_a_prefill_pool_holds_only_the_prompts_in_flight() -> None:
    pools = disaggregated(laid_out("tp2"), laid_out("tp4"), WORK)
    assert (pools.in_flight, pools.arriving) == (2, 1)
    each = float(kv_bytes_per_sequence(laid_out("tp2"), float(WORK.prompt)))
    assert pools.prefill_memory.kv == 2 * each
    longest = float(kv_bytes_per_sequence(laid_out("tp4"), float(WORK.longest)))
    assert pools.decode_memory.kv == (WORK.batch + 1) * longest


def test_a_cache_that_comes_during_the_prefill_has_its_place_all_the_while() -> None:
    first, rest = laid_out("tp1"), laid_out("tp4")
    pools = disaggregated(first, rest, WORK, overlapped=True)
    wait = pools.overlap.prefill_s + pools.overlap.transfer_s
    assert pools.arriving == ceil(pools.overlap.answers_per_s * wait) > 1


def test_each_pool_has_to_fit() -> None:
    first, rest = laid_out("tp8", "llama-3.1-70b"), laid_out("tp8", "llama-3.1-70b")
    assert disaggregated(first, rest, WORK).fits
    assert not disaggregated(laid_out("tp1", "llama-3.1-70b"), rest, WORK).fits
    assert not disaggregated(first, rest, replace(WORK, batch=5000)).fits


# --- mistakes


def test_pools_that_cannot_be_are_refused() -> None:
    first, rest = laid_out("tp4"), laid_out("tp8")
    with pytest.raises(LayoutError, match="11 GPUs do not hold a prefill instance of 4"):
        disaggregated(first, rest, WORK, gpus=11)
    assert disaggregated(first, rest, WORK, gpus=12).used == 12
    with pytest.raises(LayoutError, match="no network to hand the cache over"):
        disaggregated(networked(first, None), rest, WORK)
    with pytest.raises(LayoutError, match="no network"):
        disaggregated(first, networked(rest, None), WORK)
    with pytest.raises(LayoutError, match="not in one node"):
        disaggregated(first, rest, WORK, gpus=12, wires="link")
    with pytest.raises(InputError, match="nothing is decoded"):
        disaggregated(first, rest, replace(WORK, output=1))
    with pytest.raises(InputError, match="token by token"):
        disaggregated(on("bert-base-uncased"), on("bert-base-uncased"), WORK)
    with pytest.raises(InputError, match="keeps its cache in bf16, decode reads fp8"):
        disaggregated(first, on(kv="fp8"), WORK)
    with pytest.raises(InputError, match="is made for"):
        disaggregated(first, rest, replace(WORK, prompt=200_000))


def test_one_node_hands_over_on_its_link() -> None:
    alone = replace(NODE, network=None)
    instance = deployed(dense(), node=alone)
    pools = disaggregated(instance, instance, Workload(4, 64, 8), wires="link")
    assert pools.gpus <= NODE.gpus
    assert pools.transfer.send.bytes_per_s == 100.0
    assert pools.transfer.seconds == 0.25 + pools.transfer.prompt_bytes / 100.0


# --- what is shown


@pytest.mark.parametrize("overlapped", [False, True])
def test_derivations_have_the_values_of_the_headline(overlapped: bool) -> None:
    pools = disaggregated(laid_out("tp2"), laid_out("tp4"), WORK, gpus=16, overlapped=overlapped)
    result = result_of(pools)
    rows = {row["metric"]: row for row in result.tables["headline"].rows()}
    for metric, name in (
        ("ttft", "ttft_s"),
        ("prefill", "prefill_s"),
        ("tpot", "tpot_s"),
        ("latency", "latency_s"),
        ("throughput", "throughput_tok_s"),
        ("cost", "usd_per_mtok"),
    ):
        assert result.derivations[metric].value == rows[name]["value"]
    assert list(result.derivations) == [
        *("ttft", "prefill", "tpot", "latency", "kv", "transfer", "ratio", "throughput"),
        *("memory", "cost", "energy"),
    ]
    assert all(row["value"] < inf for row in rows.values())
    for name, row in rows.items():
        better = name.endswith(("tok_s", "per_gpu", "requests_per_s"))
        assert (row["serial"] <= row["value"]) if better else (row["serial"] >= row["value"])


def test_memory_and_energy_are_explained_down_to_sources() -> None:
    pools = disaggregated(laid_out("tp2"), laid_out("tp4"), WORK)
    for name, value in (
        ("energy", pools.joule_per_mtok(pools.overlap)),
        ("memory", _in_use(min(pools.prefill_memory, pools.decode_memory, key=lambda m: m.free))),
    ):
        derived = explain_all(pools)[name]
        assert derived.value == pytest.approx(value)
        assert derived.inputs


@pytest.mark.parametrize(
    ("name", "basis"), [("sglang", "measured"), ("llamacpp", "assumed"), ("ideal", None)]
)
def test_software_of_a_handover_is_measured_where_an_engine_has_a_figure(
    name: str, basis: str | None
) -> None:
    bare = on(engine=name)
    known = replace(bare, calibration=calibration_of("auto", bare.node.gpu, name))
    (whole,) = explain_all(disaggregated(known, known, WORK))["transfer"].inputs
    software = next(each for each in whole.inputs if each.name == "o")
    handing = [each.basis for each in software.inputs if each.name == "handing over"]
    assert handing == [basis] * (basis is not None)


def _in_use(memory: MemoryBudget) -> float:
    return memory.weights + memory.kv + memory.activations + memory.runtime + memory.graphs


def test_a_price_is_that_of_both_pools_or_none() -> None:
    first, rest = laid_out("tp2"), laid_out("tp2", device="h200-sxm")
    pools = disaggregated(first, rest, WORK)
    split = pools.split
    prices = [each.node.gpu.usd_per_hour for each in (first, rest)]
    assert pools.usd_per_hour == 2 * (split.prefill * prices[0] + split.decode * prices[1])
    unknown = laid_out("tp2", device="h20")
    assert unknown.node.gpu.usd_per_hour == 0
    result = result_of(disaggregated(first, unknown, WORK))
    assert "usd_per_mtok" not in result.tables["headline"]["metric"]
    assert any("No price is assumed" in note for note in result.notes)


def test_the_alternatives_are_static_batches_on_as_many_devices() -> None:
    first, rest = laid_out("tp2"), laid_out("tp4")
    ours, theirs, others = (
        result_of(disaggregated(first, rest, WORK, gpus=16)).tables["alternatives"].rows()
    )
    assert (ours["serving"], theirs["layout"], others["layout"]) == (
        "disaggregated",
        "tp4 × 4",
        "tp2 × 8",
    )
    alone = static_batch(rest, replace(WORK, prefill_batch=1))
    assert theirs["throughput_tok_s"] == 4 * alone.throughput_tok_s
    assert theirs["usd_per_mtok"] == alone.usd_per_mtok
    same = result_of(disaggregated(first, first, WORK)).tables["alternatives"]
    assert len(same) == 2
