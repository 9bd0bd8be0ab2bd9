"""Prefill and decode on pools of their own: what is handed over, how many of each."""

from dataclasses import replace
from math import ceil, inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.layout import parse
from roofline.cost.memory import Memory, kv_bytes_per_sequence
from roofline.cost.stages import pipeline
from roofline.errors import InputError, LayoutError
from roofline.hardware.machine import Link
from roofline.model.architecture import Architecture
from roofline.model.parameters import kv_bytes_per_token, state_elements_per_sequence
from roofline.serving.disaggregated import Disaggregated, disaggregated
from roofline.serving.disaggregated_result import result_of
from roofline.serving.explain.disaggregated import METRICS
from roofline.serving.kv_transfer import Side, Transfer, prompt_bytes, transfer
from roofline.serving.pools import Phases, Split, divide
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.units import BITS_PER_BYTE
from roofline.units import parse as quantity
from tests.cost.networks import NODE, dense, deployed, networks
from tests.serving.deployments import on

SEVERAL = settings(max_examples=40, deadline=None)
WORK = Workload(64, 2048, 256)
FREE = Link("infiniband", bytes_per_s=1e300)


def laid_out(layout: str, model: str = "llama-3.1-8b", device: str = "h100-sxm") -> Deployment:
    return replace(on(model, device), layout=parse(layout))


def networked(deployment: Deployment, network: Link | None) -> Deployment:
    return replace(deployment, node=replace(deployment.node, network=network))


def phases(**given: float) -> Phases:
    usual: dict[str, Any] = {
        "prefill_s": 0.5,
        "transfer_s": 0.0,
        "step_s": 0.01,
        "prompt_s": 0.5,
        "answer_s": 0.1,
        "send_s": 0.0,
        "receive_s": 0.0,
    }
    return Phases(output=2, **{**usual, **given})


SECONDS = st.floats(0.01, 100.0)
PHASES = st.builds(
    phases,
    prompt_s=SECONDS,
    answer_s=SECONDS,
    send_s=st.just(0.0) | SECONDS,
    receive_s=st.just(0.0) | SECONDS,
)


# --- what is handed over


@pytest.mark.parametrize(
    ("model", "layouts"),
    [
        ("llama-3.1-8b", ["tp1", "tp8", "tp16", "tp32", "pp3", "tp4-pp2", "cp4", "tp2-cp2-pp2"]),
        ("llama-2-13b", ["tp1", "tp8", "pp7"]),
        ("deepseek-v3", ["tp8-ep8", "dp8-ep8", "tp4-dp4-ep16", "tp8-pp2-ep8", "tp16-ep16"]),
    ],
)
def test_every_part_of_a_cache_is_sent_once_however_it_lies(model: str, layouts: list[str]) -> None:
    for layout in layouts:
        deployment = laid_out(layout, model)
        whole = kv_bytes_per_token(deployment.architecture) * 2048
        handed = transfer(deployment, deployment, 2048, 1, "network")
        assert prompt_bytes(deployment, 2048.0) == handed.prompt_bytes == whole
        assert handed.send.busiest_bytes * handed.send.sharing >= whole
        stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
        assert sum(prompt_bytes(deployment, 2048.0, stage) for stage in stages) == whole
        if len(deployment.architecture.layers) % deployment.layout.pp == 0:
            assert handed.send.busiest_bytes * handed.send.sharing == whole


@pytest.mark.parametrize(
    ("model", "layout", "copies"),
    [
        ("llama-3.1-8b", "tp4", 1),
        ("llama-3.1-8b", "tp8", 1),
        ("llama-3.1-8b", "tp32", 4),  # 8 key/value heads, each on 4 devices
        ("llama-3.1-8b", "cp2", 1),
        ("deepseek-v3", "tp4-ep4", 4),  # a latent on every device
        ("deepseek-v3", "dp4-ep4", 1),
    ],
)
def test_what_devices_keep_is_what_is_sent_times_its_copies(
    model: str, layout: str, copies: int
) -> None:
    deployment = laid_out(layout, model)
    group = int(deployment.layout.tp * deployment.layout.cp)
    kept = group * float(kv_bytes_per_sequence(deployment, 1024.0))
    assert kept == copies * prompt_bytes(deployment, 1024.0)


def test_states_go_with_the_cache_and_windows_cap_it() -> None:
    hybrid = on("nemotron-h-8b-base-8k")
    state = state_elements_per_sequence(hybrid.architecture)
    grown = prompt_bytes(hybrid, 2048.0) - prompt_bytes(hybrid, 1024.0)
    assert grown == kv_bytes_per_token(hybrid.architecture) * 1024
    assert prompt_bytes(hybrid, 2048.0) - 2 * grown >= 2 * state
    local = deployed(dense(layers=3, window=16))
    assert prompt_bytes(local, 100.0) == prompt_bytes(local, 16.0) == 3 * 2 * 2 * 8 * 2 * 16


def test_a_worked_example_of_opt_66b() -> None:
    """DistServe, arXiv 2401.09670: 512 tokens are 1.13 GB, and 10 of them a second 90 Gbit/s.

    2 · 64 · 9216 · 512 · 2 B = 1,207,959,552 B = 1.125 GiB, which the paper calls 1.13 GB; times 10
    it is 96.6 Gbit/s. Four devices with 25 Gbit/s each carry 100.
    """
    network = dense(
        layers=64, heads=72, kv_heads=72, head_dim=128, d_model=9216, width=4 * 9216, vocab=50272
    )
    wires = Link("ethernet", quantity("25 Gb/s", "b/s") / BITS_PER_BYTE)
    instance = networked(deployed(network, tp=4), wires)
    handed = transfer(instance, instance, 512, 1, "network")
    assert handed.prompt_bytes == 1_207_959_552 == 1.125 * 2**30
    assert handed.seconds == pytest.approx(1_207_959_552 / 4 / (25e9 / 8), rel=1e-12)  # 97 ms
    pools = disaggregated(instance, instance, Workload(8, 512, 64))
    ten = phases(
        prompt_s=0.1, answer_s=0.1, send_s=handed.send.cache_s, receive_s=handed.receive.cache_s
    )
    one_each = replace(pools, split=Split(1, 1))
    needed, given_ = one_each.wire_bytes_per_s(ten)
    assert BITS_PER_BYTE * needed == pytest.approx(96.6e9, rel=1e-3)
    assert BITS_PER_BYTE * given_ == pytest.approx(100e9)
    assert Split(1, 1).utilisation(ten) == pytest.approx(0.966, rel=1e-3)


def test_groups_send_at_once_and_prompts_of_a_group_one_after_the_other() -> None:
    side = Side(sharing=4, groups=8, busiest_bytes=100.0, bytes_per_s=50.0, latency_s=0.0)
    assert [side.seconds(prompts) for prompts in (1, 8, 9, 16)] == [2.0, 2.0, 4.0, 4.0]
    assert side.cache_s == 0.25


def test_a_mesh_has_one_wire_to_the_opposite_device() -> None:
    instance = laid_out("tp2", device="mi300x")
    link = instance.node.link
    assert link is not None
    handed = transfer(instance, instance, 100, 1, "link")
    assert handed.send.bytes_per_s == link.bytes_per_s / 7


@SEVERAL
@given(SECONDS, SECONDS, st.integers(1, 80))
def test_layers_sent_as_they_are_computed_follow_each_other(
    compute: float, send: float, layers: int
) -> None:
    end = Side(1, 1, busiest_bytes=send * layers, bytes_per_s=1.0, latency_s=0.125)
    handed = Transfer(send * layers, 1, layers, end, end, "network")
    sent = 0.0
    for layer in range(1, layers + 1):
        sent = max(sent, compute * layer) + send
    exposed = handed.exposed(compute * layers)
    assert exposed == pytest.approx(0.125 + sent - compute * layers, rel=1e-9)
    assert exposed <= handed.seconds * (1 + 1e-12)
    assert handed.exposed(0.0) == pytest.approx(handed.seconds)


# --- how many of each


@SEVERAL
@given(PHASES, st.integers(1, 9), st.integers(1, 9), st.integers(18, 90))
def test_no_other_instances_on_these_devices_serve_more(
    times: Phases, prefill: int, decode: int, gpus: int
) -> None:
    split = divide(times, prefill, decode, gpus)
    assert split.prefill * prefill + split.decode * decode <= gpus
    served = split.requests_per_s(times)
    for n in range(1, gpus // prefill + 1):
        if rest := (gpus - n * prefill) // decode:
            assert Split(n, rest).requests_per_s(times) <= served
    for fewer in (Split(split.prefill - 1, split.decode), Split(split.prefill, split.decode - 1)):
        if fewer.prefill and fewer.decode:
            assert fewer.requests_per_s(times) < served
    # Devices that could be divided at will would serve this much.
    ideal = gpus / (prefill / times.prompts_per_s + decode / times.answers_per_s)
    assert served <= ideal * (1 + 1e-12)


@SEVERAL
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 8), st.integers(1, 8), SECONDS)
def test_the_balanced_ratio_leaves_neither_pool_idle(
    prefill: int, decode: int, wide: int, deep: int, second: float
) -> None:
    times = phases(prompt_s=prefill * second, answer_s=decode * second)
    assert times.ratio == pytest.approx(prefill / decode)
    split = divide(times, wide, deep, prefill * wide + decode * deep)
    assert (split.prefill, split.decode) == (prefill, decode)
    assert split.idle(times) == pytest.approx((0.0, 0.0), abs=1e-12)


@SEVERAL
@given(PHASES)
def test_without_a_number_of_devices_one_kind_has_a_single_instance(times: Phases) -> None:
    split = divide(times, 4, 8, None)
    assert min(split.prefill, split.decode) == 1
    assert abs(split.prefill / split.decode - times.ratio) <= max(times.ratio, 1.0)
    if times.ratio >= 1:
        assert split.prefill in (int(times.ratio), int(times.ratio) + 1)


@SEVERAL
@given(PHASES, st.integers(1, 20), st.integers(1, 20))
def test_wires_that_are_asked_for_too_much_set_the_pace(
    times: Phases, prefill: int, decode: int
) -> None:
    split = Split(prefill, decode)
    share = split.utilisation(times)
    served = split.requests_per_s(times)
    assert served == pytest.approx(split.demand(times) / max(share, 1.0), rel=1e-12)
    assert all(-1e-12 <= idle < 1 for idle in split.idle(times))


# --- what users feel


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
    assert got.ttft_s == one.ttft_s
    assert got.tpot_s == pytest.approx(alone.tpot_s, rel=1e-12)
    assert got.second_token_s == pytest.approx(one.ttft_s + alone.tpot_s, rel=1e-12)
    assert got.latency_s == pytest.approx(one.ttft_s + alone.tpot_s * (output - 1), rel=1e-12)
    assert pools.serial.latency_s == pytest.approx(
        one.ttft_serial_s + alone.tpot_serial_s * (output - 1), rel=1e-12
    )
    # Divided at will, the pools serve what the static batch does on as many devices.
    assert pools.ideal_tok_s(got) / pools.used == pytest.approx(alone.throughput_tok_s, rel=1e-12)
    assert pools.split.utilisation(got) == pytest.approx(0.0, abs=1e-200)


def test_more_network_is_never_slower() -> None:
    first, rest = laid_out("tp2"), laid_out("tp4")
    wires = first.node.network
    assert wires is not None
    last: Disaggregated | None = None
    for overlapped in (False, True):
        for factor in (0.001, 0.01, 0.1, 1.0, 10.0, 1000.0):
            network = replace(wires, bytes_per_s=factor * wires.bytes_per_s)
            ends = networked(first, network), networked(rest, network)
            pools = disaggregated(*ends, WORK, gpus=24, overlapped=overlapped)
            for at in ("overlap", "serial"):
                now = getattr(pools, at)
                before = getattr(last, at) if last and factor > 0.001 else now
                assert now.ttft_s == before.ttft_s
                assert now.second_token_s <= before.second_token_s
                assert now.latency_s <= before.latency_s
            if last and factor > 0.001:
                assert pools.tok_s(pools.overlap) >= last.tok_s(last.overlap)
            last = pools


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
    assert any("the wires set the pace" in sentence for sentence in summary)


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
    assert got.second_token_s == got.ttft_s + got.transfer_s + got.step_s
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
        ("second_token", "second_token_s"),
        ("tpot", "tpot_s"),
        ("latency", "latency_s"),
        ("throughput", "throughput_tok_s"),
        ("cost", "usd_per_mtok"),
    ):
        assert result.derivations[metric].value == rows[name]["value"]
    assert list(result.derivations) == list(METRICS)
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
        derived = METRICS[name](pools)
        assert derived.value == pytest.approx(value)
        assert derived.inputs


def _in_use(memory: Memory) -> float:
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
