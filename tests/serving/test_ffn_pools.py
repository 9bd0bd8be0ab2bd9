"""Micro-batches between attention and feed-forward pools: their time, counted by events."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.ffn_pool import with_ffn_pool
from roofline.cost.layout import parse
from roofline.errors import LayoutError
from roofline.records import replace
from roofline.serving.disaggregated import disaggregated
from roofline.serving.disaggregated_result import result_of
from roofline.serving.ffn_pools import VISITS, numbers, ratios
from roofline.serving.simulate.prices import step_prices
from roofline.serving.stages import finish, period
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from tests.cases import examples
from tests.serving.deployments import on

SEVERAL = settings(max_examples=examples(60), deadline=None)
TIMES = st.tuples(*[st.integers(1, 20)] * 4)
"""Attention, the way there, feed-forward part, the way back. [1]"""
MODEL = "qwen3-30b-a3b"
WORK = Workload(64, 1024, 128)


def between_tokens(layers: Sequence[tuple[int, ...]], number: int, steps: int = 24) -> float:
    """Mean time between tokens by events: each of the four takes who comes first, one at a time."""
    free = [0] * 4
    queue = [(0, turn, 0) for turn in range(number)]  # time, micro-batch, visits that are done
    ends: list[int] = []
    while queue:
        # Whoever has waited longest at its resource goes next; of equals the first in turn.
        time, turn, done = min(queue)
        queue.remove((time, turn, done))
        each, place = divmod(done, 4)
        free[place] = max(time, free[place]) + layers[each % len(layers)][place]
        done += 1
        if turn == number - 1 and done % (4 * len(layers)) == 0:
            ends.append(free[place])
        if done < 4 * len(layers) * steps:
            queue.append((free[place], turn, done))
    half = len(ends) // 2
    return (ends[-1] - ends[half - 1]) / (len(ends) - half)


@SEVERAL
@given(TIMES, st.integers(1, 5), st.integers(1, 4))
def test_a_step_takes_what_events_say_where_layers_are_alike(
    times: tuple[int, ...], number: int, layers: int
) -> None:
    told = period([float(layers * each) for each in times], float(number))
    assert between_tokens([times] * layers, number) == told


@SEVERAL
@given(st.lists(TIMES, min_size=1, max_size=4), st.integers(1, 5))
def test_layers_that_differ_take_at_least_that_and_at_most_one_layer_after_the_other(
    layers: list[tuple[int, ...]], number: int
) -> None:
    told = float(period([float(sum(each)) for each in zip(*layers, strict=True)], float(number)))
    each = sum(float(finish([float(time) for time in one], float(number))) for one in layers)
    counted = between_tokens(layers, number)
    assert told * (1 - 1e-9) <= counted <= each * (1 + 1e-9)


def test_a_few_dense_layers_before_mixtures_change_little() -> None:
    layers = [(10, 2, 4, 3)] * 3 + [(10, 5, 12, 9)] * 58
    for number in (1, 2, 3, 4):
        told = float(period([float(sum(each)) for each in zip(*layers, strict=True)], number))
        assert told <= between_tokens(layers, number, 6) <= 1.03 * told


def test_three_micro_batches_hide_transfers_of_less_than_half_the_time() -> None:
    assert period([2.0, 0.9, 2.0, 0.9], 3.0) == 3 * 2.0
    assert period([2.0, 1.1, 2.0, 1.1], 3.0) > 3 * 2.0
    assert period([2.0, 1.1, 2.0, 1.1], 2.0) > 2 * 2.0


def fed(number: int = 2, turns: int = 3, ffn: str = "dp4-ep4", model: str = MODEL) -> Deployment:
    return with_ffn_pool(on(model), number, parse(ffn), microbatches=turns)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_the_time_between_tokens_is_that_of_the_micro_batches(turns: int) -> None:
    batch = static_batch(fed(turns=turns), WORK)
    assert len(batch.decode_stages) == len(VISITS)
    told = float(period(batch.decode_stages, float(turns)))
    assert batch.tpot_s == pytest.approx(told, rel=1e-3)  # the mean over contexts is inside
    assert batch.devices == 6
    assert batch.usd_per_mtok == pytest.approx(
        6 * batch.deployment.node.gpu.usd_per_hour / 3600 / batch.throughput_tok_s * 1e6
    )


def test_the_table_of_steps_has_the_price_of_a_static_batch() -> None:
    deployment = fed()
    prices = step_prices(deployment)
    for batch in (6, 48, 192):
        one = static_batch(deployment, Workload(batch, 2047, 2))
        row = prices.decode_s[np.searchsorted(prices.batches, batch)]
        told = float(np.interp(2048, prices.contexts, row))
        assert told == pytest.approx(one.tpot_s, rel=0.005)


def test_faster_wires_and_more_attention_are_never_slower() -> None:
    last = np.inf
    for number in (1, 2, 4, 8):
        step = static_batch(fed(number), WORK).tpot_s
        assert step <= last
        last = step
    one = fed()
    link = one.node.network
    assert link is not None
    assert one.ffn is not None
    fast = replace(one.node, network=replace(link, bytes_per_s=10 * link.bytes_per_s))
    feeding = replace(one.ffn, deployment=replace(one.ffn.deployment, node=fast))
    assert static_batch(replace(one, node=fast, ffn=feeding), WORK).tpot_s <= (
        static_batch(one, WORK).tpot_s
    )


def test_the_first_ratio_has_most_tokens_for_each_gpu() -> None:
    found = ratios(on(MODEL), parse("dp4-ep4"), WORK, room=9)
    assert {each.groups for each in found} == {1, 2, 3, 4}
    assert len(found) == 4 * 4
    for each in found:
        alone = static_batch(fed(each.groups, each.deployment.turns), WORK)
        assert each.tok_s_per_gpu == pytest.approx(64 / alone.tpot_s / (each.groups + 4))
        assert each.tok_s_per_gpu <= found[0].tok_s_per_gpu
        busy = each.deployment.turns * max(each.batch.decode_stages)
        assert (each.binds == "latency") == (busy < sum(each.batch.decode_stages))
    assert numbers(2, 8, 15, 64) == [1, 2, 3]
    with pytest.raises(LayoutError, match="do not hold an attention instance of 2 beside"):
        numbers(2, 8, 9, 64)


def test_a_decode_instance_may_have_a_pool_of_feed_forward_parts() -> None:
    pools = disaggregated(on(MODEL, tp=2), fed(), WORK, gpus=20)
    assert pools.ffn_memory is not None
    assert pools.decode.devices == 6
    assert pools.used == 2 * pools.split.prefill + 6 * pools.split.decode
    assert pools.ffn_memory.kv == 0.0 < pools.decode_memory.kv
    result = result_of(pools)
    visits = result.tables["visits"].rows()
    assert [row["visit"] for row in visits] == list(VISITS)
    assert result.derivations["tpot"].value == pools.overlap.tpot_s
    assert any(
        "2 attention instances on 2 GPUs beside 4 GPUs" in each
        for each in result.metadata["summary"]
    )
