"""Laws that the equations of attention, experts and their exchange keep, whatever was fitted."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
import pytest

from roofline.cost.kernels import (
    decode,
    exchange,
    experts,
    latent,
    latent_module,
    latent_prefill,
    prefill,
    routing,
)
from roofline.cost.kernels.form import Form, Machine, machine
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from roofline.records import replace

H100: Final = machine(gpu("h100-sxm"), "bf16")
LINK: Final = 450e9
COUNT: Final = 40

Columns = dict[str, Array]


def shapes(**over: float) -> Columns:
    """Random attention shapes, some of them replaced."""
    random = np.random.default_rng(3)
    kv_heads = 2.0 ** random.integers(0, 4, COUNT)
    context = np.floor(2.0 ** random.uniform(0, 15, COUNT))
    drawn = {
        "batch": np.floor(2.0 ** random.uniform(0, 8, COUNT)),
        "new": np.ones(COUNT),
        "context": context,
        "heads": kv_heads * 2.0 ** random.integers(0, 4, COUNT),
        "kv_heads": kv_heads,
        "head_dim": random.choice([64.0, 128.0, 256.0], COUNT),
        "window": np.zeros(COUNT),
        "width": np.full(COUNT, 2.0),
        "kv_width": np.full(COUNT, 2.0),
    }
    return drawn | {name: np.full(COUNT, value) for name, value in over.items()}


def whole(columns: Columns) -> Columns:
    """Prefill from empty."""
    return columns | {"new": columns["context"]}


def filling(columns: Columns, kernel: str = "", generation: str = "") -> Columns:
    return prefill.prefill_dims(*columns.values(), kernel=kernel, generation=generation)


def decoding(columns: Columns, kernel: str = "", *, single: bool = False) -> Columns:
    return decode.decode_dims(*columns.values(), kernel=kernel, single=single)


def some_experts() -> Columns:
    tokens = 2.0 ** np.arange(COUNT).astype(float).clip(0, 14)
    wide = np.full(COUNT, 4096.0)
    four = np.full(COUNT, 4.0)
    _, rows, touched, tiles = routing.columns(
        tokens, np.full(COUNT, 64.0), four, four, np.zeros(COUNT)
    )
    shape = {
        "tokens": tokens,
        "hidden": wide,
        "inter": wide / 4,
        "active": np.full(COUNT, 4.0),
        "local": np.full(COUNT, 16.0),
        "matrices": np.full(COUNT, 3.0),
        "weight_width": np.full(COUNT, 2.0),
        "width": np.full(COUNT, 2.0),
        "highest": np.full(COUNT, 128.0),
        "rows": rows,
        "touched": touched,
    }
    return experts.expert_dims(shape, tiles)


def some_exchange() -> Columns:
    tokens = 2.0 ** np.arange(COUNT).astype(float).clip(0, 16)
    every = [np.full(COUNT, value) for value in (4096.0, 5.0, 128.0, 24.0, 2.0, LINK)]
    return exchange.exchange_dims(tokens, *every)


def latents(generation: str = "hopper", kernel: str = "") -> Columns:
    drawn = shapes()
    names = ("batch", "new", "context", "heads", "width", "kv_width")
    return latent.latent_dims(
        *(drawn[name] for name in names), generation=generation, kernel=kernel
    )


def expanded(kernel: str = "") -> Columns:
    drawn = whole(shapes())
    names = ("batch", "new", "context", "heads", "width", "kv_width")
    return latent_prefill.latent_prefill_dims(*(drawn[name] for name in names), kernel=kernel)


def module(columns: Columns) -> Columns:
    heads = shapes()["heads"]
    own = {"heads": heads, "weight_width": np.full(COUNT, 2.0), "faster": np.ones(COUNT)}
    return {**columns, **own}


def whole_module() -> Columns:
    drawn = whole(shapes())
    named = (drawn[name] for name in ("batch", "new", "context", "heads", "width"))
    return latent_module.expanded_dims(
        *named, weight_width=np.full(COUNT, 2.0), faster=np.ones(COUNT)
    )


CASES: Final[Mapping[str, tuple[Form, Callable[[], Columns]]]] = {
    "prefill": (prefill.FORM, lambda: filling(whole(shapes()))),
    "windowed": (prefill.FORM, lambda: filling(whole(shapes(window=128.0)))),
    "decode": (decode.FORM, lambda: decoding(shapes())),
    "swapped": (decode.FORM, lambda: decoding(shapes(), "vllm_flash_attn")),
    "swapped, windowed": (
        decode.FORM,
        lambda: decoding(shapes(window=128.0), "vllm_flash_attn"),
    ),
    "one head": (decode.FORM, lambda: decoding(shapes(), single=True)),
    **{
        f"{kernel} decode": (decode.FORM, partial(lambda k: decoding(shapes(), k), kernel))
        for kernel in ("flashinfer", "triton")
    },
    **{
        f"{kernel} prefill": (
            prefill.FORM,
            partial(lambda k: filling(whole(shapes(window=128.0)), k, "ada"), kernel),
        )
        for kernel in ("fa3", "flashinfer", "triton")
    },
    "latent": (latent.DECODE, latents),
    "short and tall": (latent.DECODE, lambda: latents("blackwell")),
    "fixed splits": (latent.DECODE, lambda: latents("ada", "vllm_triton_mla")),
    "growing splits": (latent.DECODE, lambda: latents("ada", "triton")),
    "expanded": (latent_prefill.FORM, expanded),
    "inside": (latent_prefill.INSIDE, lambda: expanded("flash_attention")),
    "inside, unpacked": (latent_prefill.INSIDE, lambda: expanded("triton")),
    "module": (latent_module.ABSORBED, lambda: module(latents())),
    "module prefill": (latent_module.EXPANDED, whole_module),
    "experts": (experts.FORM, some_experts),
    "exchange": (exchange.FORM, some_exchange),
}


def times(form: Form, dims: Columns, device: Machine = H100, **over: float) -> Array:
    constants = {constant.name: constant.prior for constant in form.constants} | over
    return form.seconds(dims, device, constants)


@pytest.mark.parametrize("name", CASES)
def test_times_are_above_the_launch_and_finite_at_every_bound(name: str) -> None:
    form, dims = CASES[name][0], CASES[name][1]()
    for pick in ("low", "prior", "high"):
        found = form.seconds(dims, H100, {c.name: getattr(c, pick) for c in form.constants})
        assert np.isfinite(found).all()
        assert (found > 0).all()
        regimes = form.regime(dims, H100, {c.name: getattr(c, pick) for c in form.constants})
        assert len(regimes) == COUNT
    assert all(len(dims[axis]) == COUNT for axis in form.coordinates)
    assert all((dims[axis] > 0).all() for axis in form.coordinates)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rate", ["flops_per_s", "hbm_bytes_per_s", "l2_bytes_per_s"])
def test_a_faster_device_is_never_slower(name: str, rate: str) -> None:
    form, dims = CASES[name][0], CASES[name][1]()
    faster = replace(H100, **{rate: 2.0 * getattr(H100, rate)})
    assert (times(form, dims, faster) <= times(form, dims) * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", ["prefill", "decode", "latent", "exchange", "experts"])
def test_a_batch_prices_like_its_rows(name: str) -> None:
    form, dims = CASES[name][0], CASES[name][1]()
    alone = [times(form, {k: v[i : i + 1] for k, v in dims.items()})[0] for i in range(COUNT)]
    np.testing.assert_array_equal(times(form, dims), alone)


def test_a_window_that_hides_nothing_is_no_window() -> None:
    bare, wide = whole(shapes()), whole(shapes(window=2.0**15))
    for build, form in ((filling, prefill.FORM), (decoding, decode.FORM)):
        np.testing.assert_array_equal(times(form, build(bare)), times(form, build(wide)))


@pytest.mark.parametrize(("new", "context"), [(1, 1), (130, 130), (256, 1024), (1000, 1000)])
@pytest.mark.parametrize("reach", [64, 128, 5000])
def test_visits_are_those_of_a_loop_over_blocks(new: int, context: int, reach: int) -> None:
    seen = min(reach, context)
    columns = {"new": new, "context": context, "reach": seen, "rows": 128, "packed": 1}
    blocks, together, last = prefill.visits(
        {name: np.array([float(value)]) for name, value in columns.items()}
    )
    visited = []
    for start in range(0, new, prefill.ROWS):
        end = context - new + min(start + prefill.ROWS, new)
        first = max(0, context - new + start + 1 - reach) if seen < context else 0
        visited.append(np.ceil(end / prefill.COLUMNS) - first // prefill.COLUMNS)
    assert blocks[0] == len(visited)
    # The last block counts as full, and a window as begun inside a tile: a tile or two of each.
    assert abs(together[0] - sum(visited)) <= 2 + len(visited)
    assert abs(last[0] - visited[-1]) <= 2


def test_more_splits_shorten_a_long_context_alone() -> None:
    long = shapes(batch=1.0, kv_heads=1.0, heads=8.0, context=2.0**17)
    split = decoding(long, "vllm_flash_attn_fa3")
    bare = split | {"splits": np.ones(COUNT)}
    assert decode.splits(split, H100)[0] == 32
    assert (times(decode.FORM, split) < times(decode.FORM, bare) / 8).all()


def test_flashinfer_splits_what_leaves_its_grid_empty_into_parts_of_128_keys() -> None:
    # 8 heads of keys in 264 slots make 33 parts each: 128 keys, 33 times, are 4224.
    contexts = [128.0, 256.0, 4096.0, 4224.0, 131072.0]
    shape = {"batch": 1.0, "heads": 32.0, "kv_heads": 8.0, "head_dim": 128.0}
    dims = [decoding(shapes(**shape, context=context), "flashinfer") for context in contexts]
    assert [decode.splits(one, H100)[0] for one in dims] == [1, 2, 32, 33, 32]
    assert decode.splits(decoding(shapes(**shape | {"batch": 64.0}), "flashinfer"), H100)[0] == 1


def test_triton_splits_more_where_contexts_are_longer() -> None:
    shape = {"batch": 64.0, "heads": 8.0, "kv_heads": 1.0, "head_dim": 128.0}
    dims = [decoding(shapes(**shape, context=64.0 * 2**k), "triton") for k in range(1, 6)]
    # ⌈132 · log2(keys / 64) / 64⌉ at most, 8 at most, of whole tiles of 32 keys.
    assert [decode.splits(one, H100)[0] for one in dims] == [2, 4, 6, 8, 8]


def test_heads_of_a_window_are_blocks_of_their_own_in_flash_attention_2() -> None:
    shape = {"batch": 4.0, "heads": 32.0, "kv_heads": 8.0, "context": 4096.0}
    bare = decoding(shapes(**shape), "vllm_flash_attn_fa2")
    windowed = decoding(shapes(**shape, window=8192.0), "vllm_flash_attn_fa2")
    assert (bare["units"][0], windowed["units"][0]) == (32.0, 128.0)
    assert decode.splits(bare, H100)[0] > decode.splits(windowed, H100)[0] == 1


def test_heads_read_one_by_one_share_their_keys_in_memory() -> None:
    shape = {"batch": 64.0, "heads": 64.0, "kv_heads": 1.0, "head_dim": 128.0, "context": 16384.0}
    cold = replace(H100, l2_bytes=0.0)
    grouped, single = (decoding(shapes(**shape), single=single) for single in (False, True))
    constants = {c.name: c.prior for c in decode.FORM.constants} | {"l2": 1.0}
    once, again = (decode.parts(dims, cold, constants).memory[0] for dims in (grouped, single))
    apart = decoding(shapes(**shape | {"kv_heads": 64.0}), single=True)
    assert once < again < decode.parts(apart, cold, constants).memory[0]


def test_tiles_from_memory_are_no_faster_than_from_the_cache() -> None:
    dims = decoding(shapes())
    assert (times(decode.FORM, dims, far=2.0) >= times(decode.FORM, dims, far=1.0)).all()


def test_packed_groups_fill_blocks_that_short_prompts_leave_empty() -> None:
    short = whole(shapes(batch=32.0, heads=32.0, kv_heads=2.0, context=8.0))
    packed, bare = filling(short, "fa3"), filling(short)
    assert prefill.visits(packed)[0][0] * 64 == prefill.visits(bare)[0][0] * 32 * 32 / 16
    assert (times(prefill.FORM, packed) < times(prefill.FORM, bare)).all()


def test_flashinfer_takes_blocks_for_the_rows_of_a_packed_group() -> None:
    shape = {"heads": 8.0, "kv_heads": 1.0, "head_dim": 128.0}
    rows = [
        filling(whole(shapes(**shape, context=tokens)), "flashinfer", "ada")["rows"][0]
        for tokens in (1.0, 2.0, 4.0, 8.0, 9.0)
    ]
    assert rows == [16.0, 16.0, 64.0, 64.0, 128.0]
    wide = whole(shapes(**shape | {"head_dim": 256.0}, context=4096.0))
    assert filling(wide, "flashinfer", "ada")["rows"][0] == 64.0


def test_a_window_that_is_walked_to_is_between_a_skipped_one_and_none() -> None:
    columns = whole(shapes(window=128.0, context=8192.0))
    walked, skipped = filling(columns, "triton", "hopper"), filling(columns)
    bare = filling(columns | {"window": np.zeros(COUNT)})
    least, found, most = (
        times(prefill.FORM, dims, again=1.0, masked=1.0) for dims in (skipped, walked, bare)
    )
    assert (found > least).all()
    assert (found < most).all()


def test_splits_leave_no_slot_idle_nor_pass_their_bound() -> None:
    dims = decoding(shapes(), "vllm_flash_attn_fa3")
    found, tiles = decode.splits(dims, H100), decode.tiles(dims)
    assert (found >= 1).all()
    assert (found <= np.minimum(tiles, 32)).all()
    assert (found[dims["units"] >= H100.multiprocessors] == 1).all()


def test_a_cache_that_fits_on_chip_is_read_faster() -> None:
    constants = {c.name: c.prior for c in decode.FORM.constants}
    size = np.array([H100.l2_bytes / 10, H100.l2_bytes * 10])
    small, large = size / decode.read_again(size, H100, constants)
    assert small > 1.2 * large
    blind = replace(H100, l2_bytes=0.0, l2_bytes_per_s=0.0)
    assert decode.read_again(size, blind, constants) == pytest.approx(
        size / (constants["memory"] * H100.hbm_bytes_per_s)
    )


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [1, 7, 64, 5000])
@pytest.mark.parametrize("groups", [1, 4, 64])
def test_loads_add_up_and_the_busiest_has_its_share(tokens: int, groups: int) -> None:
    drawn = list(routing.power_law(tokens, 64, 4, groups, 1.2))
    assert len(drawn) == routing.DRAWS
    for loads in drawn:
        each = loads.reshape(groups, -1).sum(axis=1)
        assert loads.sum() == tokens * 4
        assert each.argmax() == 0
        assert ((loads >= 0) & (loads <= tokens)).all()
        chosen = routing.assigned(loads, tokens, 4)
        assert all(len(set(row)) == 4 for row in chosen.tolist())
        np.testing.assert_array_equal(np.bincount(chosen.ravel(), minlength=64), loads)
    even = routing.busiest(tokens, 64, 4, groups, 0.0)
    skewed = routing.busiest(tokens, 64, 4, groups, 1.2)
    assert skewed.rows >= even.rows - 1
    assert skewed.touched <= even.touched + 64 / groups
    assert even.tokens == tokens
    for height, tiles in zip(experts.HEIGHTS, even.tiles, strict=True):
        assert height * tiles >= even.rows
        assert tiles >= even.touched


def test_a_gate_limited_to_groups_loads_the_first_of_them_only() -> None:
    """Each token has one of its 8 experts in each of 8 groups, of which it may use the first 4: it
    takes four experts of its own there, and fills up with the first ones."""
    loads = routing.limited(routing.balanced(64, 256, 8), 256)
    assert loads.sum() == 64 * 8
    assert loads[128:].sum() == 0
    assert loads[:4].tolist() == [64] * 4
    assert loads[4:128].min() == 2


def test_a_device_alone_counts_other_choices_for_its_first_expert() -> None:
    whole = routing.busiest(64, 16, 2, 4, 0.0)
    alone = routing.busiest(64, 16, 2, 4, 0.0, routing.ALONE)
    assert alone.tokens < whole.tokens == 64
    assert alone.rows == 2 * alone.tokens


@pytest.mark.parametrize(("bits", "highest"), [((4, 16), 64), ((8, 8), 128), ((4, 8), 256)])
def test_tiles_are_as_high_as_their_formats_allow(bits: tuple[float, float], highest: int) -> None:
    assert experts.tallest(*bits) == highest


def test_weights_that_stay_in_the_cache_are_read_faster() -> None:
    dims = some_experts()
    assert H100.l2_bytes > 0
    small = dims | {"inter": dims["inter"] / 64}
    cold = replace(H100, l2_bytes=0.0)
    constants = {c.name: c.prior for c in experts.FORM.constants}
    warm_s, cold_s = (experts.seconds(small, each, constants) for each in (H100, cold))
    assert (warm_s <= cold_s).all()
    assert (warm_s < cold_s).any()
    assert (experts.kept(small, H100, constants) <= 1.0).all()


def test_empty_rows_of_a_higher_tile_cost_time() -> None:
    dims = some_experts()
    higher = dims | {"height": 2.0 * dims["height"]}
    assert (times(experts.FORM, higher) >= times(experts.FORM, dims)).all()


def test_one_kernel_for_exchange_and_experts_hides_the_shorter() -> None:
    dims = some_experts()
    constants = {c.name: c.prior for c in experts.MEGA.constants}
    alone = experts.seconds(dims, H100, constants)
    links = {"bytes_per_s": np.full(COUNT, LINK)}
    few = experts.mega_seconds({**dims, **links, "exchanged": np.zeros(COUNT)}, H100, constants)
    np.testing.assert_allclose(few, alone)
    many = {**dims, **links, "exchanged": np.full(COUNT, 1e9)}
    assert (experts.mega_seconds(many, H100, constants) >= 1e9 / LINK).all()


def test_untouched_experts_cost_no_weights() -> None:
    dims = some_experts()
    fewer = dims | {"touched": dims["touched"] / 2}
    assert (times(experts.FORM, fewer) < times(experts.FORM, dims)).all()


def test_more_sms_exchange_no_slower() -> None:
    dims = some_exchange()
    more = dims | {"sms": 2 * dims["sms"]}
    assert (times(exchange.FORM, more) <= times(exchange.FORM, dims)).all()
    assert (times(exchange.FORM, dims)[-1] > dims["tokens"] * 5 * 4096 * 2 / LINK)[-1]
