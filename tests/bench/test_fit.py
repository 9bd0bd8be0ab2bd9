"""The fit recovers what was planted, keeps to its bounds and never sees what it is scored on."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from roofline.bench.fit import OUTER, cross_validate, families_of, fit, grouped
from roofline.bench.held_out import coverage, errors
from roofline.cost.kernels.form import (
    EXTRAPOLATED,
    INTERPOLATED,
    Dims,
    Form,
    FormConstant,
    Machine,
    Trees,
    log_sd,
    octaves,
    predict,
    seconds,
)
from roofline.cost.kernels.gemm import waves
from roofline.cost.kernels.residual import value
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from tests.cases import cases

MACHINE: Final = Machine(1e15, 3e12, 5e7, 1e13, 132)
PLANTED: Final = {"launch": 3e-6, "compute": 0.7, "memory": 0.9}


def roofed(dims: Dims, machine: Machine, constants: Mapping[str, float]) -> Array:
    m, n, k = dims["m"], dims["n"], dims["k"]
    compute = 2 * m * n * k / (constants["compute"] * machine.flops_per_s)
    memory = 2 * (m * k + k * n + m * n) / (constants["memory"] * machine.hbm_bytes_per_s)
    return constants["launch"] + np.hypot(compute, memory)


def one_regime(dims: Dims, machine: Machine, constants: Mapping[str, float]) -> NDArray[np.intp]:
    return np.zeros(len(dims["m"]), dtype=np.intp)


FORM: Final = Form(
    "planted",
    (
        FormConstant("launch", 2e-7, 1e-4, 5e-6, "s", "Start."),
        FormConstant("compute", 0.1, 1.0, 0.5, "1", "Of the peak."),
        FormConstant("memory", 0.1, 1.0, 0.5, "1", "Of the memory's rate."),
    ),
    roofed,
    ("m", "n", "k"),
    one_regime,
)


def grid(widths: int = 6) -> dict[str, Array]:
    sizes = 2.0 ** np.arange(7, 7 + widths)
    m, n, k = np.meshgrid(2.0 ** np.arange(0, 15, 2), sizes, sizes, indexing="ij")
    return {"m": m.ravel(), "n": n.ravel(), "k": k.ravel()}


DIMS: Final = grid()
FAMILIES: Final = families_of(DIMS, ("n", "k"))
TRUE: Final = roofed(DIMS, MACHINE, PLANTED)


def noisy(spread: float) -> Array:
    return np.asarray(TRUE * np.exp(np.random.default_rng(1).normal(0, spread, TRUE.shape)))


@pytest.mark.slow
def test_planted_constants_are_recovered() -> None:
    model = fit(FORM, DIMS, MACHINE, TRUE, families=FAMILIES)
    assert model.constants == pytest.approx(PLANTED, rel=2e-3)
    assert errors(seconds(model, DIMS, MACHINE), TRUE).p90 < 0.001


def test_outliers_do_not_move_them() -> None:
    measured = TRUE.copy()
    measured[::20] *= 10.0
    model = fit(FORM, DIMS, MACHINE, measured, families=FAMILIES, residual=False)
    assert model.constants == pytest.approx(PLANTED, rel=0.1)


def test_what_is_outside_the_bounds_stays_at_the_bound() -> None:
    fast = roofed(DIMS, MACHINE, {**PLANTED, "memory": 2.0})
    model = fit(FORM, DIMS, MACHINE, fast, families=FAMILIES, residual=False)
    assert model.constants["memory"] == pytest.approx(1.0, abs=1e-5)
    for constant in FORM.constants:
        assert constant.low <= model.constants[constant.name] <= constant.high


def test_a_constant_without_room_is_kept() -> None:
    fixed = FormConstant("launch", 3e-6, 3e-6, 3e-6, "s", "Known.")
    form = replace(FORM, constants=(fixed, *FORM.constants[1:]))
    model = fit(form, DIMS, MACHINE, TRUE, families=FAMILIES, residual=False)
    assert model.constants["launch"] == pytest.approx(3e-6, rel=1e-12)


@pytest.mark.slow
def test_a_smooth_miss_is_learned_and_noise_is_not() -> None:
    bump = TRUE * np.exp(0.3 * np.sin(np.log2(DIMS["n"] * DIMS["m"]) / 3))
    learned = fit(FORM, DIMS, MACHINE, bump, families=FAMILIES)
    assert learned.residual is not None
    plain = fit(FORM, DIMS, MACHINE, bump, families=FAMILIES, residual=False)
    assert learned.spread < 0.8 * plain.spread
    assert fit(FORM, DIMS, MACHINE, noisy(0.1), families=FAMILIES).residual is None


def test_a_jump_between_neighbours_is_learned() -> None:
    m, n, k = np.meshgrid([64.0, 128, 129, 256, 257, 512], *[2.0 ** np.arange(7, 13)] * 2)
    dims = {"m": m.ravel(), "n": n.ravel(), "k": k.ravel()}
    measured = roofed(dims, MACHINE, PLANTED) * np.where(dims["m"] % 2 == 1, 1.5, 1.0)
    model = fit(FORM, dims, MACHINE, measured, families=families_of(dims, ("n", "k")))
    assert model.residual is not None
    assert model.residual.steps is not None
    assert errors(seconds(model, dims, MACHINE), measured).p90 < 0.05


@pytest.mark.slow
def test_idle_waves_are_learned_where_a_form_has_them() -> None:
    """Products in tiles of 128 × 128 that take whole waves of 132 multiprocessors."""
    sizes = 2.0 ** np.arange(7, 13) * 1.5
    m, n, k = (
        each.ravel()
        for each in np.meshgrid(np.arange(128.0, 4097.0, 128.0), sizes, sizes, indexing="ij")
    )
    dims = {"m": m, "n": n, "k": k}
    tiles = np.ceil(m / 128) * np.ceil(n / 128) / 132
    measured = 1e-6 + np.ceil(tiles) * k * 1e-8
    errors_of = []
    for tiled in (None, waves):
        fitted, _ = cross_validate(
            replace(FORM, waves=tiled),
            dims,
            MACHINE,
            measured,
            families=families_of(dims, ("n", "k")),
            score=cases(2, None),
        )
        held = np.isfinite(fitted)
        errors_of.append(errors(fitted[held], measured[held]).mean)
    assert errors_of[1] < 0.6 * errors_of[0]


@pytest.mark.slow
@pytest.mark.parametrize("slower", [1.0, 1.6])
def test_trees_are_kept_only_where_families_left_out_gain(slower: float) -> None:
    """A kernel that is taken above a product of sizes, and rows that are smooth in a ratio."""
    sizes = 2.0 ** np.arange(7, 17)
    every = np.meshgrid(2.0 ** np.arange(0, 12), sizes, sizes, indexing="ij")
    dims = dict(zip(("m", "n", "k"), (each.ravel() for each in every), strict=True))
    apart = dims["m"] * dims["n"] > 2.0**20
    noise = np.exp(np.random.default_rng(2).normal(0.0, 0.02, len(apart)))
    bump = np.exp(0.3 * np.sin(np.log2(dims["n"] / dims["k"]) / 3))
    measured = roofed(dims, MACHINE, PLANTED) * np.where(apart, slower, 1.0) * noise * bump
    form = replace(FORM, trees=Trees(number=60, levels=4))
    rows = (dims, MACHINE, measured)
    given = families_of(dims, ("n", "k"))
    branching, plain = (fit(each, *rows, families=given) for each in (form, FORM))
    assert branching.residual is not None
    assert plain.residual is not None
    assert plain.residual.branches is None
    assert (branching.residual.branches is not None) == (slower > 1.0)
    if slower > 1.0:
        assert branching.spread < 0.96 * plain.spread


@pytest.mark.slow
def test_a_pair_of_trees_is_nearer_than_either_way_alone() -> None:
    """Rows of many families, smooth in a ratio, of a kernel that is taken above a product."""
    sizes = 2.0 ** np.arange(7, 17) * 1.5
    every = np.meshgrid(2.0 ** np.arange(0, 16, 0.5), sizes, sizes, indexing="ij")
    dims = dict(zip(("m", "n", "k"), (each.ravel() for each in every), strict=True))
    apart = dims["m"] * dims["n"] > 2.0**20
    noise = np.exp(np.random.default_rng(2).normal(0.0, 0.02, len(apart)))
    bump = np.exp(0.3 * np.sin(np.log2(dims["n"] / dims["k"]) / 3))
    measured = roofed(dims, MACHINE, PLANTED) * np.where(apart, 1.6, 1.0) * noise * bump
    given = families_of(dims, ("n", "k"))
    single, paired = (
        fit(replace(FORM, trees=trees), dims, MACHINE, measured, families=given)
        for trees in (Trees(number=100, levels=6), Trees(number=100, levels=6, paired=True))
    )
    assert paired.residual is not None
    assert paired.residual.branches is not None
    assert len(paired.residual.branches.values) == 2 * 100
    assert paired.spread < single.spread
    off = np.log(measured / seconds(paired, dims, MACHINE))
    assert np.abs(off).mean() < 0.03


@pytest.mark.slow
def test_outside_the_hull_the_table_is_its_edge_and_fades() -> None:
    bump = TRUE * np.exp(0.3 * np.sin(np.log2(DIMS["n"] * DIMS["m"]) / 3))
    model = fit(FORM, DIMS, MACHINE, bump, families=FAMILIES)
    assert model.residual is not None
    largest = {name: column.max() for name, column in DIMS.items()}
    far = {name: np.array([1.0, 2.0, 4.0, 2.0**20]) * size for name, size in largest.items()}
    edge, near, farther, farthest = value(model.residual, model.hull, octaves(FORM, far))
    assert near == pytest.approx(edge * np.exp(-np.sqrt(3.0)))
    assert abs(farther) < abs(near)
    assert farthest == pytest.approx(0.0, abs=1e-12)
    assert predict(model, far, MACHINE)[2].tolist() == [INTERPOLATED, *[EXTRAPOLATED] * 3]
    assert (np.diff(log_sd(model, far, MACHINE)) > 0).all()
    assert (predict(model, DIMS, MACHINE)[2] == INTERPOLATED).all()


def test_a_hole_in_the_box_is_outside() -> None:
    corner = (DIMS["m"] > 2**8) & (DIMS["n"] > 2**9)
    seen = {name: column[~corner] for name, column in DIMS.items()}
    model = fit(FORM, seen, MACHINE, TRUE[~corner], families=FAMILIES[~corner])
    hole = {"m": np.array([2.0**14]), "n": np.array([2.0**12]), "k": np.array([2.0**9])}
    assert predict(model, hole, MACHINE)[2].tolist() == [EXTRAPOLATED]


def test_families_stay_whole_and_folds_cover_them() -> None:
    folds = grouped(FAMILIES, OUTER)
    assert set(folds) == set(range(OUTER))
    for family in np.unique(FAMILIES):
        assert len(set(folds[family == FAMILIES])) == 1


def honest(measured: Array) -> tuple[Array, Array]:
    return cross_validate(FORM, DIMS, MACHINE, measured, families=FAMILIES, folds=3)


def peeking(measured: Array) -> tuple[Array, Array]:
    model = fit(FORM, DIMS, MACHINE, measured, families=FAMILIES)
    return seconds(model, DIMS, MACHINE), log_sd(model, DIMS, MACHINE)


def peeking_interval(measured: Array) -> tuple[Array, Array]:
    return honest(measured)[0], peeking(measured)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("validation", "moved"), [(honest, False), (peeking, True), (peeking_interval, True)]
)
def test_nonsense_in_a_fold_moves_its_own_predictions_only_if_the_fit_peeks(
    validation: Callable[[Array], tuple[Array, Array]], moved: bool
) -> None:
    measured, held = noisy(0.1), grouped(FAMILIES, 3) == 1
    before = np.stack(validation(measured))
    after = np.stack(validation(np.where(held, 5.0 * measured, measured)))
    assert (after[:, held] != before[:, held]).any() == moved
    assert (after[:, ~held] != before[:, ~held]).any()


@pytest.mark.slow
def test_four_of_five_rows_lie_inside() -> None:
    dims = grid(9)
    families = families_of(dims, ("n", "k"))
    random = np.random.default_rng(3)
    measured = roofed(dims, MACHINE, PLANTED) * np.exp(random.normal(0, 0.2, len(dims["m"])))
    predicted, spread = cross_validate(FORM, dims, MACHINE, measured, families=families)
    assert coverage(predicted, spread, measured) == pytest.approx(0.8, abs=0.04)
    assert float(np.median(spread)) == pytest.approx(0.2, rel=0.1)


@pytest.mark.slow
def test_the_same_rows_give_the_same_fit() -> None:
    measured = noisy(0.05)
    first, second = (fit(FORM, DIMS, MACHINE, measured, families=FAMILIES) for _ in range(2))
    assert first.digest == second.digest
    other = fit(FORM, DIMS, MACHINE, 1.1 * measured, families=FAMILIES)
    assert other.digest != first.digest


@pytest.mark.slow
def test_chunks_do_not_show() -> None:
    model = fit(FORM, DIMS, MACHINE, noisy(0.05), families=FAMILIES)
    many = {name: np.tile(column, 40) for name, column in DIMS.items()}
    assert seconds(model, many, MACHINE) == pytest.approx(
        np.tile(seconds(model, DIMS, MACHINE), 40), rel=1e-12
    )


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ({"measured": np.nan}, "measured = nan"),
        ({"measured": 0.0}, "measured = 0"),
        ({"measured": -1.0}, "measured = -1"),
        ({"m": np.nan}, "m = nan"),
        ({"n": 0.0}, "n = 0"),
        ({"k": np.inf}, "k = inf"),
    ],
)
def test_a_row_without_meaning_is_one_error(planted: dict[str, float], said: str) -> None:
    columns = {name: column.copy() for name, column in {**DIMS, "measured": TRUE}.items()}
    for name, wrong in planted.items():
        columns[name][7] = wrong
    measured = columns.pop("measured")
    with pytest.raises(InputError, match=f"row 7 has {said}") as caught:
        fit(FORM, columns, MACHINE, measured, families=FAMILIES)
    assert "leave out rows" in caught.value.hint


def test_too_few_rows_or_families_are_one_error() -> None:
    few = {name: column[:5] for name, column in DIMS.items()}
    with pytest.raises(InputError, match="5 rows cannot fit 3 constants of planted"):
        fit(FORM, few, MACHINE, TRUE[:5], families=FAMILIES[:5])
    with pytest.raises(InputError, match="1 families of shapes"):
        fit(FORM, DIMS, MACHINE, TRUE, families=np.zeros_like(FAMILIES))
    with pytest.raises(InputError, match="columns of different length"):
        fit(FORM, DIMS, MACHINE, TRUE[:-1], families=FAMILIES)
