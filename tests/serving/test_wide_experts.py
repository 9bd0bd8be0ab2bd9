"""Experts over many devices: redundant ones, and exchanges that another micro-batch hides."""

import numpy as np
import pytest

from roofline.cost.deployment import Deployment
from roofline.cost.layout import parse
from roofline.cost.memory import weight_bytes
from roofline.cost.moe import Routing
from roofline.cost.step import decode, step
from roofline.errors import InputError, LayoutError
from roofline.records import replace
from roofline.serving.notes import layout_notes
from roofline.serving.simulate.prices import step_prices
from roofline.serving.stages import period, price_step
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from tests.serving.deployments import on

MODEL = "qwen3-30b-a3b"
WIDE = parse("dp8-ep8")
WORK = Workload(256, 1024, 64, prefill_batch=8)


def test_redundant_experts_are_held_and_read() -> None:
    plain = on(MODEL, layout=WIDE, routing=Routing(skew=1.0))
    more = on(MODEL, layout=WIDE, routing=Routing(skew=1.0, redundant=16))
    # 16 of 128 experts on each of 8 devices, 18 of 144: 3 · 2048 · 768 numbers in 48 layers.
    added = float(weight_bytes(more) - weight_bytes(plain))
    assert added == 48 * 2 * 3 * 2048 * 768 * 2.0
    rows = [step(each, decode(256, 1024))["experts-down"].dims["rows"] for each in (plain, more)]
    assert rows[1] < rows[0]
    # Prompts have fewer rows on the fullest device; few sequences have more weights to read.
    one, other = static_batch(plain, WORK), static_batch(more, WORK)
    assert other.ttft_s < one.ttft_s
    assert other.tpot_s > one.tpot_s
    said = " ".join(layout_notes(static_batch(more, WORK), 1))
    assert "16 redundant experts, 2 more on each group" in said


def test_more_groups_than_experts_need_redundant_ones() -> None:
    wide = parse("dp256-ep256")
    with pytest.raises(LayoutError, match="or redundant experts"):
        on(MODEL, layout=wide)
    assert on(MODEL, layout=wide, routing=Routing(redundant=128)).devices == 256
    with pytest.raises(InputError, match="-1 redundant experts"):
        Routing(redundant=-1)


def test_two_batches_compute_and_exchange_in_turn() -> None:
    whole, two = on(MODEL, layout=WIDE), on(MODEL, layout=WIDE, two_batch=True)
    ops = step(two, decode(128, 1023))  # of each of two micro-batches
    stages = price_step(two, decode(128, 1023))
    moved = {"dispatch", "combine"}
    assert set(stages[1].ops) == moved
    assert set(stages[0].ops) == set(ops) - moved
    computing, exchanging = (float(stage.seconds()) for stage in stages)
    (alone,) = price_step(on(MODEL, layout=WIDE), decode(128, 1023))
    assert computing + exchanging == pytest.approx(float(alone.seconds()))
    batch = static_batch(two, replace(WORK, output=2, prompt=1023))
    told = max(2 * computing, 2 * exchanging, computing + exchanging)
    assert batch.tpot_s == pytest.approx(told)
    assert told == period([computing, exchanging], 2.0)
    # Weights are read twice, which free exchanges would not be worth.
    assert batch.tpot_s > static_batch(whole, replace(WORK, output=2, prompt=1023)).tpot_s * 0.5


def test_where_exchanges_are_long_two_batches_hide_them() -> None:
    whole, two = on(MODEL, layout=WIDE), on(MODEL, layout=WIDE, two_batch=True)

    def slow(deployment: Deployment) -> Deployment:
        link = deployment.node.link
        assert link is not None
        node = replace(deployment.node, link=replace(link, bytes_per_s=link.bytes_per_s / 50))
        return replace(deployment, node=node)

    many = Workload(4096, 1024, 2, prefill_batch=8)
    one, other = (static_batch(slow(each), many).tpot_s for each in (whole, two))
    assert other < 0.9 * one


def test_the_table_of_steps_has_the_price_of_two_batches() -> None:
    deployment = on(MODEL, layout=WIDE, two_batch=True)
    prices = step_prices(deployment)
    for batch in (16, 256):
        one = static_batch(deployment, Workload(batch, 2047, 2, prefill_batch=8))
        row = prices.decode_s[np.searchsorted(prices.batches, batch)]
        assert np.interp(2048.0, prices.contexts, row) == pytest.approx(one.tpot_s, rel=0.005)


def test_two_batches_are_refused_where_something_else_hides_or_takes_turns() -> None:
    with pytest.raises(InputError, match="two micro-batches hide it too"):
        on(MODEL, layout=WIDE, two_batch=True, overlap=0.5)
    with pytest.raises(LayoutError, match="in a pipeline"):
        on(MODEL, layout=parse("dp4-ep4-pp2"), two_batch=True)
    # Without groups that exchange tokens there is nothing to hide.
    alone = on(MODEL, layout=parse("tp4"), two_batch=True)
    assert static_batch(alone, WORK).tpot_s == static_batch(on(MODEL, tp=4), WORK).tpot_s
