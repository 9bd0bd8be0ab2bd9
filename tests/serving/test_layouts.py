"""Static batches over many devices: what a layout changes for users, and what it may not."""

from dataclasses import fields
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.work import Number
from roofline.hardware.machine import Link
from roofline.hardware.serving_engine import DeviceDefault
from roofline.records import replace
from roofline.serving.room import largest_batch
from roofline.serving.stages import price_step
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.static_batches import curve
from roofline.serving.workload import Workload
from tests.cases import examples
from tests.cost.networks import BOXES, with_rates
from tests.cost.reference.pipelining import completions
from tests.cost.spread import NETWORKS, laid, spreads

FEW = settings(max_examples=examples(25), deadline=None)
WORKLOADS = st.builds(
    Workload,
    batch=st.integers(1, 20),
    prompt=st.integers(1, 60),
    output=st.integers(1, 12),
    prefill_batch=st.just(0),
)


def answers(batch: StaticBatch) -> dict[str, object]:
    """Everything but what was asked."""
    asked = ("deployment", "workload")
    return {one.name: getattr(batch, one.name) for one in fields(batch) if one.name not in asked}


@FEW
@given(st.sampled_from(sorted(NETWORKS)), WORKLOADS)
def test_degrees_of_one_answer_as_one_device(kind: str, work: Workload) -> None:
    network = NETWORKS[kind]
    ones = Layout(1, 1, 1, 1, 1, True, (len(network.layers),))
    default, laid_out = (static_batch(laid(network, one), work) for one in (Layout(), ones))
    assert answers(default) == answers(laid_out)


@FEW
@given(spreads(), WORKLOADS)
def test_one_batch_in_a_pipeline_passes_one_stage_after_the_other(
    case: tuple[str, Layout], work: Workload
) -> None:
    kind, layout = case
    batch = static_batch(laid(NETWORKS[kind], replace(layout, microbatches=1)), work)
    assert len(batch.prefill_stages) == layout.pp
    assert batch.ttft_s == pytest.approx(sum(batch.prefill_stages))
    assert batch.ttft_mean_s == pytest.approx(batch.ttft_s)
    if work.output > 1:
        assert batch.tpot_s == pytest.approx(sum(batch.decode_stages))


@FEW
@given(spreads(), WORKLOADS)
def test_first_tokens_come_when_the_events_say(case: tuple[str, Layout], work: Workload) -> None:
    kind, layout = case
    deployment = laid(NETWORKS[kind], layout)
    batch = static_batch(deployment, work)
    number, size = work.turns(deployment) if layout.pp > 1 else (1, work.batch)
    sizes = [size] * (work.batch // size)
    sizes += [work.batch % size] * (work.batch % size > 0)
    assert len(sizes) == number
    jobs = [
        [_exact(stage.seconds()) for stage in price_step(deployment, work.prefill(float(each)))]
        for each in sizes
    ]
    (ends,) = completions(jobs)
    assert batch.ttft_s == pytest.approx(ends[-1] / 1e9)
    mean = sum(end / 1e9 * each for end, each in zip(ends, sizes, strict=True)) / work.batch
    assert batch.ttft_mean_s == pytest.approx(mean)


def _exact(seconds: Number) -> int:
    """Whole nanoseconds, so that events are not a rounding error apart."""
    return round(float(seconds) * 1e9)


@FEW
@given(spreads(), WORKLOADS)
def test_next_tokens_come_as_often_as_the_events_say(
    case: tuple[str, Layout], work: Workload
) -> None:
    kind, layout = case
    deployment, work = laid(NETWORKS[kind], layout), replace(work, output=2)
    number, size = work.turns(deployment)
    priced = price_step(deployment, work.decode(float(work.longest), float(size)))
    rounds = completions([[_exact(stage.seconds()) for stage in priced]] * number, rounds=31)
    steady = float(rounds[30][-1] - rounds[10][-1]) / 20 / 1e9
    assert static_batch(deployment, work).tpot_s == pytest.approx(steady)


@pytest.mark.slow
@FEW
@given(spreads(), WORKLOADS, st.sampled_from(["link", "network"]), st.floats(1, 8))
def test_better_wires_never_let_users_wait_longer(
    case: tuple[str, Layout], work: Workload, level: str, factor: float
) -> None:
    kind, layout = case
    deployment = laid(NETWORKS[kind], layout)
    before = static_batch(deployment, work)
    wired = getattr(deployment.node, level)
    assert isinstance(wired, Link)
    for better in (
        replace(wired, bytes_per_s=2 * wired.bytes_per_s),
        replace(wired, latency_s=wired.latency_s / 2),
        replace(wired, reduces=True),
    ):
        _waits_no_longer(_rewired(deployment, level, better), work, before)
    _waits_no_longer(with_rates(deployment, **{level: factor}), work, before)
    crowded = replace(deployment.node.network or wired, oversubscription=factor)
    worse = static_batch(_rewired(deployment, "network", crowded), work)
    assert worse.ttft_s >= before.ttft_s * (1 - 1e-12)
    assert worse.tpot_s >= before.tpot_s * (1 - 1e-12)


def _rewired(deployment: Deployment, level: str, link: Link) -> Deployment:
    node = deployment.node
    node = replace(node, link=link) if level == "link" else replace(node, network=link)
    return replace(deployment, node=node)


def _waits_no_longer(better: Deployment, work: Workload, before: StaticBatch) -> None:
    after = static_batch(better, work)
    assert after.ttft_s <= before.ttft_s * (1 + 1e-12)
    assert after.tpot_s <= before.tpot_s * (1 + 1e-12)


@pytest.mark.slow
@FEW
@given(spreads(), WORKLOADS, st.lists(st.floats(0, 1), min_size=2, max_size=3))
def test_the_more_is_hidden_the_less_users_wait(
    case: tuple[str, Layout], work: Workload, shares: list[float]
) -> None:
    kind, layout = case
    answered = [
        static_batch(laid(NETWORKS[kind], layout, overlap=share), work) for share in sorted(shares)
    ]
    for less, more in pairwise(answered):
        assert more.ttft_s <= less.ttft_s * (1 + 1e-12)
        assert more.tpot_s <= less.tpot_s * (1 + 1e-12)
    for batch in answered:
        assert batch.ttft_s <= batch.ttft_serial_s * (1 + 1e-12)
        assert batch.tpot_s <= batch.tpot_serial_s * (1 + 1e-12)


@FEW
@given(spreads(), WORKLOADS)
def test_shares_of_operators_add_up_to_their_stage(
    case: tuple[str, Layout], work: Workload
) -> None:
    kind, layout = case
    batch = static_batch(laid(NETWORKS[kind], layout, overlap=0.5), work)
    shown = sum(one.seconds for one in batch.prefill.values())
    assert shown == pytest.approx(max(batch.prefill_stages))
    if work.output > 1:
        shown = sum(one.seconds for one in batch.decode.values())
        assert shown == pytest.approx(max(batch.decode_stages))


@pytest.mark.slow
@FEW
@given(spreads(), WORKLOADS)
def test_every_batch_of_the_curve_is_answered_as_if_it_were_asked(
    case: tuple[str, Layout], work: Workload
) -> None:
    kind, layout = case
    deployment = laid(NETWORKS[kind], layout)
    little = replace(deployment.engine, memory_utilization=DeviceDefault(1e-4))
    deployment = replace(deployment, engine=little)
    for row in curve(static_batch(deployment, work), largest_batch(deployment, work, None)).rows():
        if row["batch"] > 40:
            break
        alone = static_batch(deployment, replace(work, batch=row["batch"]))
        for name in ("ttft_s", "tpot_s", "latency_s", "throughput_tok_s"):
            assert row[name] == pytest.approx(getattr(alone, name), rel=1e-9), name


def test_devices_of_a_replica_are_all_paid_for() -> None:
    layout = Layout(tp=2, dp=4, ep=8, pp=2)
    batch = static_batch(laid(NETWORKS["mixed"], layout), Workload(8, 16, 4))
    assert batch.devices == 16
    seconds = batch.latency_s
    assert batch.usd_per_mtok == pytest.approx(16 * 3.6 / 3600 * seconds / 32 * 1e6)
    assert batch.joule_per_mtok == pytest.approx(16 * 700.0 * seconds / 32 * 1e6)


def test_a_replica_in_one_box_needs_no_network() -> None:
    lonely = replace(BOXES, network=None)
    layout, work = Layout(tp=2, dp=2, ep=4, pp=2), Workload(8, 16, 4)
    joined, alone = (
        static_batch(laid(NETWORKS["mixed"], layout, node=node), work) for node in (BOXES, lonely)
    )
    assert answers(joined) == answers(alone)
