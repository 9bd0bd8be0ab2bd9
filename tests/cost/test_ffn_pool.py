"""Attention and feed-forward parts on pools of their own: what each has, and what goes between."""

import pytest

from roofline.cost.deployment import Deployment
from roofline.cost.expert_parallel import groups_met
from roofline.cost.ffn_pool import halves, transfers, with_ffn_pool
from roofline.cost.layout import parse
from roofline.cost.memory import weight_bytes
from roofline.cost.step import decode, feed_forward, step
from roofline.cost.work import Op
from roofline.errors import InputError, LayoutError
from roofline.model.architecture import Moe
from roofline.model.parameters import total
from roofline.records import replace
from tests.serving.deployments import on

NETWORKS = ("llama-3.1-8b", "deepseek-v3", "qwen3-30b-a3b", "gpt-oss-20b", "gemma-3-12b")


def apart(model: str, groups: int, ffn: str, tp: int = 1, **options: object) -> Deployment:
    return with_ffn_pool(on(model, tp=tp), groups, parse(ffn), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", NETWORKS)
def test_both_pools_together_have_the_weights_and_do_the_work_of_one(model: str) -> None:
    whole, both = on(model), apart(model, 1, "tp1")
    assert both.ffn is not None
    feeding = both.ffn.deployment
    assert weight_bytes(both) + weight_bytes(feeding) == pytest.approx(
        weight_bytes(whole), rel=1e-12
    )

    def flops(ops: dict[str, Op]) -> float:
        return float(sum(op.work.flops * op.repeat for op in ops.values()))

    mixing = flops(step(both, decode(8, 512)))
    assert mixing + flops(feed_forward(feeding, 8.0)) == flops(step(whole, decode(8, 512)))


@pytest.mark.parametrize("model", NETWORKS)
def test_the_halves_of_a_network_have_its_parameters(model: str) -> None:
    network = replace(on(model).architecture, other_parameters={})
    mixing, feeding = halves(network)
    # The router is in both networks, and in the weights of the first pool only.
    routers = sum(
        number * block.feedforward.linears(network.d_model)[0].parameters
        for block, number in network.kinds.items()
        if isinstance(block.feedforward, Moe)
    )
    both = total(mixing) + total(feeding)
    assert both - routers == total(network)
    assert [block.mixer for block in mixing.layers] == [block.mixer for block in network.layers]


def test_a_dense_layer_sends_each_token_once_by_hand() -> None:
    both = apart("llama-3.1-8b", 4, "tp8", tp=2)
    there, back = transfers(both, 16.0, 64.0)
    link = both.node.network
    assert link is not None
    for (op,) in (there, back):
        # 16 tokens of an instance on its 2 devices, 64 on the 8 of the pool: as much for each.
        assert op.dims["bytes"] == 16 / 2 * 4096 * 2 == 64 / 8 * 4096 * 2
        assert op.wire_s == link.latency_s + 8 * 4096 * 2 / link.rate_between_nodes
        assert op.repeat == 32


def test_tokens_are_sent_to_each_group_with_an_expert_of_theirs() -> None:
    both = apart("qwen3-30b-a3b", 8, "dp4-ep4")
    there, back = transfers(both, 32.0, 256.0)
    part = both.ffn and both.ffn.deployment.architecture.layers[0].feedforward
    assert isinstance(part, Moe)
    met = 4 * (1 - _missed(part.experts, part.active, 4))
    assert groups_met(part, 4) == pytest.approx(met)
    (one,), (other,) = there, back
    assert one.dims["bytes"] == other.dims["bytes"] == pytest.approx(32 * met * 2048 * 2)
    # The fullest group has more than its share of 256 tokens, and as many as there are at most.
    link = both.node.network
    assert link is not None
    rate = link.rate_between_nodes
    least = 256 * met / 4 * 2048 * 2 / rate
    assert link.latency_s + least < one.wire_s < link.latency_s + 256 * 2048 * 2 / rate


def _missed(experts: int, active: int, groups: int) -> float:
    """Chance that none of a token's experts is in a group, drawn one after the other."""
    chance, others = 1.0, experts - experts // groups
    for drawn in range(active):
        chance *= (others - drawn) / (experts - drawn)
    return chance


def test_the_way_there_is_in_the_format_that_experts_compute_in() -> None:
    whole = on("deepseek-v3", weights="fp8", tp=8)
    both = with_ffn_pool(whole, 2, parse("dp8-ep8"))
    there, back = transfers(both, 128.0, 256.0)
    assert len(there) == len(back) == 2  # dense layers and mixtures
    for one, other in zip(there, back, strict=True):
        assert other.dims["bytes"] == 2 * one.dims["bytes"]


def test_a_pool_that_is_fed_routes_and_sends_nothing_itself() -> None:
    both = apart("qwen3-30b-a3b", 2, "dp4-ep4")
    assert both.ffn is not None
    fed, own = feed_forward(both.ffn.deployment, 64.0), step(both, decode(64, 512))
    assert not {"router", "dispatch", "combine", "embedding", "lm-head"} & set(fed)
    assert {"router", "embedding", "lm-head"} <= set(own)
    assert not {name for name in own if name.startswith("experts")}
    assert (both.devices, both.spelled) == (6, "dp2 + dp4-ep4")


def test_pools_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="not priced with attention and feed-forward parts on"):
        halves(on("pythia-6.9b").architecture)
    with pytest.raises(LayoutError, match="pipelines and shared contexts"):
        apart("llama-3.1-8b", 1, "tp2-pp2")
    with pytest.raises(InputError, match="0 attention instances"):
        apart("llama-3.1-8b", 0, "tp2")
    with pytest.raises(LayoutError, match="9 GPUs of both pools are not in one node of 8"):
        apart("llama-3.1-8b", 1, "tp8", over="link")
    assert apart("llama-3.1-8b", 4, "tp4", over="link").devices == 8
