"""Sparse attention: what queries meet, counted one by one, and laws of the equation."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pytest

from roofline.cost.kernels import choice, sparse, sparse_columns
from roofline.cost.kernels.form import Form, machine, of_constants
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from roofline.records import replace

B200: Final = machine(gpu("b200-sxm"), "bf16")
COUNT: Final = 60
RANDOM: Final = np.random.default_rng(7)
Columns = dict[str, Array]

NEW: Final = np.floor(2.0 ** RANDOM.uniform(0, 9, COUNT))
CONTEXT: Final = NEW + np.floor(2.0 ** RANDOM.uniform(0, 13, COUNT)) - 1.0
BATCH: Final = np.floor(2.0 ** RANDOM.uniform(0, 7, COUNT))
HEADS: Final[Array] = np.exp2(RANDOM.integers(2, 8, COUNT).astype(np.float64))


def tokens(batch: Array = BATCH, new: Array = NEW, context: Array = CONTEXT) -> Columns:
    return sparse_columns.tokens(batch, new, context) | sparse.no_projections(batch)


def index(own: Columns) -> Columns:
    shape = {"heads": 64.0, "head_dim": 128.0, "entry_bytes": 132.0}
    return own | sparse_columns.index(own, **shape, top_k=512.0, ratio=4.0, faster=2.0)


def latent(own: Columns, heads: Array = HEADS) -> Columns:
    widths = {"latent": 512.0, "rope": 64.0}
    return own | sparse_columns.latent(own, heads, **widths, top_k=2048.0, kv_width=1.0)


def compressed(own: Columns, top_k: float | None = None, ratio: float = 128.0) -> Columns:
    widths = {"head_dim": 512.0, "window": 128.0}
    return own | sparse_columns.compressed(
        own, HEADS, **widths, ratio=ratio, top_k=top_k, kv_width=1.0
    )


def grouped(own: Columns) -> Columns:
    return own | sparse_columns.grouped(
        own, HEADS, HEADS / 4, head_dim=128.0, top_k=2048.0, kv_width=2.0
    )


def dense(own: Columns) -> Columns:
    return own | sparse_columns.dense(own, HEADS, key=192.0, value=128.0, width=2.0)


def projected(own: Columns) -> Columns:
    matrices = [(2112.0 * np.ones(COUNT), 7168.0 * np.ones(COUNT)), (192.0 * HEADS, 1536.0 * HEADS)]
    return own | sparse.projections(matrices, HEADS, weight_width=1.0, faster=2.0)


CASES: Final[Mapping[str, tuple[Form, Callable[[], Columns]]]] = {
    "step": (sparse.STEP_MODULE, lambda: projected(latent(index(tokens(new=np.ones(COUNT)))))),
    "module": (sparse.MODULE, lambda: projected(latent(index(tokens())))),
    "unaligned": (
        sparse.UNALIGNED_MODULE,
        lambda: projected(latent(index(tokens()))) | {"unaligned": np.ones(COUNT)},
    ),
    "short": (sparse.SHORT_MODULE, lambda: projected(latent(index(tokens())))),
    "folded": (sparse.FOLDED_MODULE, lambda: projected(grouped(index(tokens())))),
    "dense": (sparse.DENSE_MODULE, lambda: projected(dense(tokens()))),
    "unfused": (
        sparse.UNFUSED_MODULE,
        lambda: projected(grouped(tokens())) | {"unfused": np.ones(COUNT)},
    ),
    "copied": (
        sparse.COPIED_MODULE,
        lambda: projected(grouped(tokens(new=np.ones(COUNT)))) | {"copied": np.ones(COUNT)},
    ),
    "attention": (sparse.ATTENTION, lambda: compressed(tokens())),
    "scores": (sparse.SCORING, lambda: index(tokens()) | {"chooses": np.zeros(COUNT)}),
    "choice": (choice.FORM, lambda: index(tokens()) | {"index_macs": np.zeros(COUNT)}),
}


def times(form: Form, dims: Columns, **over: float) -> Array:
    return form.seconds(dims, B200, {c.name: c.prior for c in form.constants} | over)


def test_keys_met_are_those_of_each_query_in_the_mean() -> None:
    dims = latent(tokens())
    for new, context, met in zip(NEW, CONTEXT, dims["met"], strict=True):
        seen = np.minimum(np.arange(context - new, context) + 1.0, 2048.0)
        assert met == pytest.approx(seen.mean())


def test_a_window_and_entries_are_met_and_only_the_best_entries() -> None:
    every, best = compressed(tokens(), None, 4.0), compressed(tokens(), 16.0, 4.0)
    for new, context, most, few in zip(NEW, CONTEXT, every["met"], best["met"], strict=True):
        before = np.arange(context - new, context) + 1.0
        window = np.minimum(before, 128.0)
        assert most == pytest.approx((window + before / 4).mean())
        assert few == pytest.approx((window + np.minimum(before, 64.0) / 4).mean())


def test_a_query_chooses_where_it_has_more_entries_than_are_chosen() -> None:
    dims = index(tokens())
    for place, (new, context) in enumerate(zip(NEW, CONTEXT, strict=True)):
        before = np.arange(context - new, context) + 1.0
        busy = before > 2048.0
        assert dims["busy"][place] == pytest.approx(busy.mean())
        if busy.any():
            assert dims["judged"][place] == pytest.approx(before[busy].mean() / 4, rel=0.01)


def test_work_of_attention_is_that_of_the_cost_model() -> None:
    """4096 tokens in pairs of 576 + 512 for each head, at the tensor rate and nothing else."""
    own = tokens(np.array([4.0]), np.array([1024.0]), np.array([8192.0]))
    dims = latent(own, np.array([128.0]))
    free = {"step": 1e-9, "unit": 1e-7, "memory": 1.0, "l2": 1.0, "compute": 0.02, "pad": 1.0}
    found = times(sparse.ATTENTION, dims, **free, blocks=1.0, sharpness=16.0, launch=1e-6)
    flops = 2.0 * 4 * 1024 * 2048 * 128 * (576 + 512)
    assert found[0] == pytest.approx(flops / (0.02 * B200.flops_per_s), rel=0.02)


@pytest.mark.parametrize("name", CASES)
def test_times_are_finite_and_above_zero_at_every_bound(name: str) -> None:
    form, dims = CASES[name][0], CASES[name][1]()
    for pick in ("low", "prior", "high"):
        constants = {c.name: getattr(c, pick) for c in form.constants}
        found = form.seconds(dims, B200, constants)
        assert np.isfinite(found).all()
        assert (found > 0).all()
        assert len(form.regime(dims, B200, constants)) == COUNT
    assert all((dims[axis] > 0).all() for axis in form.coordinates)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rate", ["flops_per_s", "hbm_bytes_per_s", "l2_bytes_per_s"])
def test_a_faster_device_is_never_slower(name: str, rate: str) -> None:
    form, dims = CASES[name][0], CASES[name][1]()
    constants = {c.name: c.prior for c in form.constants}
    slow = replace(B200, l2_bytes_per_s=1e13)
    fast = replace(slow, **{rate: 2.0 * getattr(slow, rate)})
    slower, faster = (form.seconds(dims, each, constants) for each in (slow, fast))
    assert (faster <= slower * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", CASES)
def test_more_sequences_take_no_less(name: str) -> None:
    form, dims = CASES[name][0], CASES[name][1]()
    more = dims | {"batch": 2.0 * dims["batch"], "tokens": 2.0 * dims["tokens"]}
    assert (times(form, more) >= times(form, dims) * (1 - 1e-12)).all()


@pytest.mark.parametrize("name", CASES)
def test_constants_may_be_columns(name: str) -> None:
    """As the search for them takes differences of all at once."""
    form, dims = CASES[name][0], CASES[name][1]()
    low, high = np.log([(c.low, c.high) for c in form.constants]).T
    values = np.exp(RANDOM.uniform(low, high, (5, len(low))))
    names = [c.name for c in form.constants]
    at_once = form.seconds(dims, B200, dict(zip(names, values.T[:, :, None], strict=True)))
    each = [form.seconds(dims, B200, dict(zip(names, v.tolist(), strict=True))) for v in values]
    np.testing.assert_allclose(at_once, np.stack(each), rtol=1e-12)


def test_parts_of_a_module_are_the_module() -> None:
    """An index, an attention and projections, each asked for alone, with their launches."""
    constants = {c.name: c.prior for c in sparse.MODULE.constants}
    bare = tokens()
    module = projected(latent(index(bare)))
    alone = [
        index(bare) | {"launches": 0.3 * np.ones(COUNT)},
        latent(bare) | {"launches": 0.4 * np.ones(COUNT)},
        projected(bare) | {"launches": 0.3 * np.ones(COUNT)},
    ]
    together = sum(sparse.MODULE.seconds(each, B200, constants) for each in alone)
    np.testing.assert_allclose(together, sparse.MODULE.seconds(module, B200, constants), rtol=1e-9)


def test_a_host_that_is_slow_hides_a_short_module_and_not_a_long_one() -> None:
    dims = projected(latent(index(tokens())))
    eager = dims | {"hosted": np.ones(COUNT)}
    device = times(sparse.MODULE, dims, host=2e-3)
    found = times(sparse.MODULE, eager, host=2e-3)
    assert (found >= np.maximum(device, 2e-3) * (1 - 1e-12)).all()
    assert (found <= np.maximum(device, 2e-3) * 2 ** (1 / sparse.HOST) * (1 + 1e-12)).all()


def test_only_the_host_launches_more_for_a_width_that_is_not_aligned() -> None:
    dims = projected(latent(index(tokens())))
    uneven = dims | {"unaligned": 2.0 * np.ones(COUNT)}
    eager = {"hosted": np.ones(COUNT)}
    module = sparse.UNALIGNED_MODULE
    np.testing.assert_array_equal(times(module, uneven), times(sparse.MODULE, dims))
    found = times(module, uneven | eager, host=1e-3, unaligned=4e-4)
    np.testing.assert_allclose(found, times(sparse.MODULE, dims | eager, host=1.8e-3), rtol=1e-12)


def test_two_short_blocks_gather_keys_twice_and_a_tall_one_once() -> None:
    """Long prompts that are bound by keys from the last-level cache, which each block gathers."""
    own = tokens(np.array([4.0]), np.array([8192.0]), np.array([8192.0]))
    bound = {"l2": 0.02, "step": 1e-9, "unit": 1e-7, "launch": 1e-6, "sharpness": 16.0}
    sixteen, twice, tall = (
        times(sparse.SHORT_MODULE, latent(own, np.array([heads])), **bound)[0]
        for heads in (16.0, 32.0, 64.0)
    )
    assert twice == pytest.approx(2.0 * sixteen, rel=0.02)
    assert tall == pytest.approx(sixteen, rel=0.02)
    for heads in (8.0, 16.0, 64.0, 128.0):
        dims = latent(own, np.array([heads]))
        assert times(sparse.SHORT_MODULE, dims) == times(sparse.MODULE, dims)


def test_constants_that_move_one_by_one_are_as_each_alone() -> None:
    """As a search moves them: a part that a constant is not of is the same in its row."""
    own = {**projected(index(latent(tokens()))), "hosted": np.ones(COUNT)}
    prior = {each.name: each.prior for each in sparse.MODULE.constants}
    moved = [prior, *({**prior, name: 1.1 * value} for name, value in prior.items())]
    together = {name: np.array([[each[name]] for each in moved]) for name in prior}
    alone = [sparse.MODULE.seconds(own, B200, each) for each in moved]
    assert len(np.unique(alone, axis=0)) > len(prior) / 2
    found = sparse.MODULE.seconds(own, B200, together)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, alone, rtol=1e-14)


def test_a_part_sees_its_own_constants_alone() -> None:
    part = of_constants("rate")(lambda dims, machine, constants: dims["n"] * constants["start"])
    with pytest.raises(KeyError, match="start"):
        part({"n": np.ones(2)}, B200, {"rate": 1.0, "start": 2.0})
