"""Mixtures of experts: routing against enumeration and simulation, steps against counting."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.memory import weight_bytes
from roofline.cost.moe import UNIFORM, Routing, chances, touched
from roofline.cost.step import decode, prefill, step
from roofline.cost.work import Work
from roofline.errors import InputError, LayoutError
from roofline.model.architecture import (
    Architecture,
    Attention,
    Block,
    CompressedAttention,
    Mla,
    Mlp,
    Moe,
)
from roofline.model.catalog import architecture, names
from roofline.model.parameters import parts
from roofline.model.parameters import total as total_parameters
from roofline.records import replace
from tests.cases import examples
from tests.cost import reference
from tests.cost.networks import deployed, groups, row_of, setting, total
from tests.cost.reference import Sequences, count_step
from tests.model.matrices import matmul_parameters

SEVERAL = settings(max_examples=examples(40), deadline=None)
D = 6
MIXTURES = tuple(
    name
    for name in names()
    if any(isinstance(block.feedforward, Moe) for block in architecture(name).kinds)
)


def of(*parts: Moe | Mlp | None, d_model: int = D) -> Architecture:
    """A network of these feed-forward parts behind small attention layers."""
    mixer = Attention(4, 4, 2)
    layers = tuple(Block(mixer, part, 2, 2 * d_model) for part in parts)
    return Architecture("mixture", "mixtral", d_model, 8, layers, False, d_model)


@st.composite
def mixtures(draw: st.DrawFn, tp: int = 1) -> Moe:
    """Any small mixture that ``tp`` devices can share."""
    experts = draw(st.integers(1, 4))
    shared = draw(st.sampled_from([0, 0, tp, 3 * tp]))
    return Moe(
        experts,
        draw(st.integers(1, experts)),
        draw(st.integers(1, 4)) * tp,
        gated=draw(st.booleans()),
        shared_width=shared,
        shared_gate=bool(shared) and draw(st.booleans()),
        router_bias=draw(st.booleans()),
        up_bias=draw(st.booleans()),
        down_bias=draw(st.booleans()),
        latent=0 if shared else draw(st.sampled_from([0, 3])),
    )


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    tp = draw(st.sampled_from([1, 2, 4]))
    network = of(draw(mixtures(tp)), *draw(st.sampled_from([(), (None,), (Mlp(4, gated=True),)])))
    return deployed(
        network,
        weights=draw(st.sampled_from(["bf16", "fp8"])),
        tp=tp,
        logits=draw(st.sampled_from(["last", "all"])),
    )


FEW = st.sampled_from(
    [
        [Sequences(1, 1, 1)],
        [Sequences(2, 1, 5)],
        [Sequences(1, 4, 4)],
        [Sequences(1, 3, 7), Sequences(1, 1, 9)],
    ]
)
SKEWS = st.floats(0, 3).map(lambda skew: Routing(skew=skew))


@SEVERAL
@given(deployments(), FEW)
def test_a_step_through_experts_is_what_counting_token_by_token_gives(
    deployment: Deployment, some: list[Sequences]
) -> None:
    network = deployment.architecture.stored_as(deployment.precision.weights.name)
    slow = count_step(network, some, setting(deployment))
    ours = total(step(replace(deployment, architecture=network), groups(some)))
    assert ours.flops == slow.flops
    assert ours.kv_bytes == slow.kv_bytes
    assert ours.weight_bytes == pytest.approx(float(slow.weight_bytes), rel=1e-12)
    assert ours.activation_bytes == pytest.approx(float(slow.activation_bytes), rel=1e-12)


def test_layers_that_differ_only_in_experts_per_token_are_not_taken_for_one_another() -> None:
    network = of(Moe(4, 1, 3), Moe(4, 3, 3))
    slow = count_step(network, [Sequences(1, 2, 2)], setting(deployed(network)))
    ours = total(step(deployed(network), groups([Sequences(1, 2, 2)])))
    assert ours.activation_bytes == slow.activation_bytes


@pytest.mark.parametrize("experts", range(1, 6))
@pytest.mark.parametrize("tokens", range(4))
def test_expected_distinct_experts_are_the_mean_over_all_ways_to_route(
    experts: int, tokens: int
) -> None:
    for active in range(1, experts + 1):
        exact = reference.expected_distinct(tokens, experts, active)
        assert touched(float(tokens), experts, active) == pytest.approx(float(exact), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "routing",
    [
        Routing(skew=0.5),
        Routing(skew=1.2),
        Routing(skew=3.0),
        Routing(loads=(1, 2, 3, 4, 5, 6, 7, 8)),
        Routing(loads=(100, 1, 1, 1, 1, 1, 0, 0)),
    ],
    ids=str,
)
@pytest.mark.parametrize("tokens", [1, 2, 7, 20])
def test_expected_distinct_experts_under_skew_are_those_of_simulated_batches(
    routing: Routing, tokens: int
) -> None:
    experts, active = 8, 3
    chance = chances(experts, active, routing).tolist()
    mean, error = reference.simulated_distinct(tokens, chance, 4000, seed=tokens)
    assert abs(float(touched(float(tokens), experts, active, routing)) - mean) <= 4 * error + 1e-9


def test_a_token_of_the_simulation_has_exactly_its_number_of_experts() -> None:
    chance = chances(8, 3, Routing(skew=1.2)).tolist()
    for start in np.linspace(0, 0.999, 50):
        assert len(reference.systematic(chance, float(start))) == 3


@given(st.integers(1, 64), st.data(), SKEWS)
def test_the_chances_of_experts_are_chances_and_add_up_to_those_of_a_token(
    experts: int, data: st.DataObject, routing: Routing
) -> None:
    active = data.draw(st.integers(1, experts))
    chance = chances(experts, active, routing)
    assert len(chance) == experts
    assert chance.min() >= 0
    assert chance.max() <= 1
    assert chance.sum() == pytest.approx(active, rel=1e-12)
    assert list(chance) == sorted(chance, reverse=True)


@given(st.floats(0, 3))
def test_a_power_law_is_the_same_as_loads_that_follow_it(skew: float) -> None:
    loads = tuple(7.0 * rank**-skew for rank in range(1, 13))
    assert chances(12, 2, Routing(loads=loads[::-1])) == pytest.approx(
        chances(12, 2, Routing(skew=skew)), rel=1e-9
    )


@given(st.integers(1, 300), st.data(), st.integers(1, 5000), SKEWS)
def test_experts_touched_are_between_those_of_one_token_and_all(
    experts: int, data: st.DataObject, tokens: int, routing: Routing
) -> None:
    active = data.draw(st.integers(1, experts))
    met = float(touched(float(tokens), experts, active, routing))
    assert active * (1 - 1e-12) <= met <= min(experts, tokens * active) * (1 + 1e-12)
    assert float(touched(tokens + 1.0, experts, active, routing)) >= met * (1 - 1e-12)


@given(st.integers(1, 300), st.data(), st.integers(1, 5000), st.floats(0, 3), st.floats(0, 2))
def test_more_skew_never_touches_more_experts(
    experts: int, data: st.DataObject, tokens: int, skew: float, more: float
) -> None:
    active = data.draw(st.integers(1, experts))
    less, skewed = (
        float(touched(float(tokens), experts, active, Routing(skew=s))) for s in (skew, skew + more)
    )
    assert skewed <= less * (1 + 1e-12)


@pytest.mark.parametrize("routing", [UNIFORM, Routing(skew=0.8), Routing(loads=(5, 3, 2, 1, 1))])
def test_a_column_of_tokens_touches_what_its_rows_touch(routing: Routing) -> None:
    tokens = np.array([0.0, 1.0, 3.0, 50.0, 1e6])
    together = touched(tokens, 5, 2, routing)
    assert list(np.asarray(together)) == [float(touched(float(t), 5, 2, routing)) for t in tokens]


def test_a_column_of_steps_prices_like_its_rows() -> None:
    deployment = deployed(of(Moe(8, 2, 4, shared_width=2)), routing=Routing(skew=0.7))
    batches = np.array([1.0, 4.0, 30.0])
    together = total(step(deployment, decode(batches, 9.0)))
    for row, batch in enumerate(batches):
        alone = total(step(deployment, decode(float(batch), 9.0)))
        assert row_of(together, row, 3) == pytest.approx(row_of(alone, 0, 1), rel=1e-14)


def _difference(a: Work, b: Work) -> Work:
    return a + b * -1.0


@SEVERAL
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 9))
def test_one_expert_is_the_dense_part_and_a_router(width: int, shared: int, tokens: int) -> None:
    one = of(Moe(1, 1, width, shared_width=shared * 0))
    group = prefill(1.0, float(tokens))
    mixture = step(deployed(one), group)
    dense = step(deployed(of(Mlp(width, gated=True))), group)
    extra = mixture["router"].total + mixture["experts-combine"].total
    left = _difference(total(mixture), extra)
    assert left.flops == total(dense).flops
    assert left.weight_bytes == pytest.approx(total(dense).weight_bytes, rel=1e-14)
    assert left.activation_bytes == pytest.approx(total(dense).activation_bytes, rel=1e-14)
    # The router's own work: a dot product per expert, its matrix, its input and its output.
    assert mixture["router"].total == Work(
        flops=2.0 * D * tokens, weight_bytes=2.0 * D, activation_bytes=2.0 * (D + 1) * tokens
    )


@SEVERAL
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 9))
def test_sending_every_token_to_every_expert_is_one_dense_part_of_their_joint_width(
    experts: int, width: int, tokens: int
) -> None:
    group = prefill(1.0, float(tokens))
    mixture = step(deployed(of(Moe(experts, experts, width))), group)
    dense = step(deployed(of(Mlp(experts * width, gated=True))), group)
    for name, theirs in (("experts-gate-up", "gate-up"), ("experts-down", "down")):
        ours, wide = mixture[name].total, dense[theirs].total
        assert ours.flops == wide.flops
        assert ours.weight_bytes == pytest.approx(wide.weight_bytes, rel=1e-14)
    inner = ("experts-activation", "activation")
    assert mixture[inner[0]].total.hbm_bytes == dense[inner[1]].total.hbm_bytes


@SEVERAL
@given(st.sampled_from([UNIFORM, Routing(skew=1.0)]), st.integers(1, 64))
def test_weights_follow_experts_touched_and_flops_follow_rows(
    routing: Routing, tokens: int
) -> None:
    part = Moe(16, 3, 4)
    ops = step(deployed(of(part), routing=routing), prefill(1.0, float(tokens)))
    met = float(touched(float(tokens), 16, 3, routing))
    up, down = part.expert_linears(D)
    for matrix in (up, down):
        work = ops[matrix.name].total
        assert work.flops == 2 * matrix.n * matrix.k * 3 * tokens
        assert work.weight_bytes == pytest.approx(2 * matrix.n * matrix.k * met, rel=1e-14)


@pytest.mark.parametrize("tp", [2, 4])
def test_experts_and_shared_parts_are_split_and_routers_are_not(tp: int) -> None:
    part = Moe(8, 2, 4, shared_width=8, shared_gate=True)
    network = of(part)
    held = [weight_bytes(deployed(network, tp=n)) for n in (1, tp)]
    everywhere = 8 * D + D + 2 * D  # router, gate of the shared part, norms
    assert held[1] - 2 * everywhere == pytest.approx((held[0] - 2 * everywhere) / tp)


@pytest.mark.parametrize("tp", [2, 4])
def test_devices_that_share_a_mixture_do_what_one_would_do(tp: int) -> None:
    part = Moe(8, 2, 4, shared_width=8)
    one, several = (step(deployed(of(part), tp=n), prefill(1.0, 5.0)) for n in (1, tp))
    for name in ("experts-gate-up", "experts-down", "shared-gate-up", "shared-down"):
        assert several[name].total.flops * tp == one[name].total.flops
        assert several[name].total.weight_bytes * tp == pytest.approx(one[name].total.weight_bytes)
    assert several["router"].total == one["router"].total


@pytest.mark.parametrize("part", [Moe(4, 2, 6), Moe(4, 2, 4, shared_width=6)])
def test_widths_that_devices_cannot_share_are_refused(part: Moe) -> None:
    with pytest.raises(LayoutError, match="expert width 6"):
        deployed(of(part), tp=4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Routing(skew=-0.1),
        lambda: Routing(skew=float("nan")),
        lambda: Routing(skew=1e9),
        lambda: Routing(loads=(1.0, -1.0)),
        lambda: Routing(loads=(0.0, 0.0)),
        lambda: Routing(loads=(float("nan"), 1.0)),
        lambda: Routing(loads=(float("inf"), 1.0)),
    ],
)
def test_routing_without_meaning_is_refused(make: Callable[[], Routing]) -> None:
    with pytest.raises(InputError):
        make()


def test_loads_are_one_for_each_expert() -> None:
    with pytest.raises(InputError, match="3 expert loads for 4 experts"):
        step(deployed(of(Moe(4, 2, 4)), routing=Routing(loads=(1, 2, 3))), decode(1.0, 4.0))


def test_loads_on_too_few_experts_are_refused_or_still_make_whole_tokens() -> None:
    try:
        chance = chances(4, 2, Routing(loads=(1, 0, 0, 0)))
    except InputError:
        return
    assert chance.sum() == 2


@pytest.mark.parametrize("name", MIXTURES)
def test_one_token_meets_twice_the_active_matrices(name: str) -> None:
    network = architecture(name).stored_as("bf16")
    ops = step(deployed(network), decode(1.0, 0.0)).values()
    matrices = sum(op.total.flops for op in ops if op.kind in ("gemm", "moe"))
    assert matrices == pytest.approx(2 * matmul_parameters(network), rel=1e-12)


@pytest.mark.parametrize("name", MIXTURES)
def test_a_prefill_that_touches_every_expert_reads_every_matrix(name: str) -> None:
    network = replace(architecture(name).stored_as("bf16"), plain_format="bf16")
    tokens = 1e7
    ops = step(deployed(network), prefill(1.0, tokens))
    read = sum(op.total.weight_bytes for op in ops.values() if op.kind != "lookup")
    tables = parts(network)["position_embedding"]
    tables += 0 if network.tied_embeddings else parts(network)["embedding"]
    stored = total_parameters(network) - tables
    assert 2 * (stored - left_out(network)) <= read * (1 + 1e-12)
    assert read <= 2 * stored * (1 + 1e-12)


def left_out(network: Architecture) -> int:
    """Vectors that a step does not read: sinks, norms of index keys, scales of experts."""
    every = 0
    for block, layers in network.kinds.items():
        vectors = block.extra_parameters
        if isinstance(block.mixer, Attention | Mla):
            vectors += block.mixer.other_parameters - block.mixer.norm_parameters
        if isinstance(block.mixer, CompressedAttention):
            vectors += block.mixer.other_parameters - block.mixer.query_rank - block.mixer.head_dim
        every += layers * vectors
    return every


@pytest.mark.parametrize("name", ["mixtral-8x7b-v0.1", "deepseek-v3", "jamba-v0.1"])
@pytest.mark.parametrize("batch", [1.0, 64.0])
def test_more_bits_are_never_fewer_bytes_of_experts_latents_and_caches(
    name: str, batch: float
) -> None:
    stored = architecture(name).stored_as
    by_weight = [
        deployed(stored(form), weights=form, kv="bf16") for form in ("int4", "fp8", "bf16")
    ]
    read = [float(total(step(d, decode(batch, 99.0))).weight_bytes) for d in by_weight]
    held = [weight_bytes(d) for d in by_weight]
    assert read == sorted(read)
    assert held == sorted(held)
    by_cache = [deployed(stored("bf16"), kv=form, mla="absorbed") for form in ("fp8", "bf16")]
    moved = [float(total(step(d, decode(batch, 99.0))).kv_bytes) for d in by_cache]
    assert moved[0] < moved[1]
