"""Cache handed over from prefill to decode, and the time when it has arrived."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.layout import pipeline
from roofline.cost.memory import kv_bytes_per_sequence
from roofline.hardware.machine import Link
from roofline.model.parameters import kv_bytes_per_token, state_elements_per_sequence
from roofline.records import replace
from roofline.serving.disaggregated import disaggregated
from roofline.serving.kv_transfer import KvTransfer, Side, prompt_bytes, transfer
from roofline.serving.pools import PoolSplit
from roofline.serving.workload import Workload
from roofline.units import BITS_PER_BYTE
from roofline.units import parse as quantity
from tests.cases import examples
from tests.cost.networks import dense, deployed
from tests.serving.deployments import on
from tests.serving.pooled import SECONDS, laid_out, networked, phases

SEVERAL = settings(max_examples=examples(40), deadline=None)


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
    one_each = replace(pools, split=PoolSplit(1, 1))
    needed, given_ = one_each.wire_bytes_per_s(ten)
    assert BITS_PER_BYTE * needed == pytest.approx(96.6e9, rel=1e-3)
    assert BITS_PER_BYTE * given_ == pytest.approx(100e9)
    assert PoolSplit(1, 1).utilisation(ten) == pytest.approx(0.966, rel=1e-3)


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
    handed = KvTransfer(send * layers, 1, layers, end, end, "network")
    sent = 0.0
    for layer in range(1, layers + 1):
        sent = max(sent, compute * layer) + send
    exposed = handed.exposed(compute * layers)
    assert exposed == pytest.approx(0.125 + sent - compute * layers, rel=1e-9)
    assert exposed <= handed.seconds * (1 + 1e-12)
    assert handed.exposed(0.0) == pytest.approx(handed.seconds)
