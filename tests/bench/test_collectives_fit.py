"""The fit of collectives on rows whose constants are known."""

import numpy as np
import pytest

from roofline.bench.exchange_rows import algorithms
from roofline.bench.held_out import octaves
from roofline.cost.kernels.collective import BOUNDS, CUSTOM, NCCL
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from tests.bench.folds import with_spread
from tests.bench.regime_fit import Rows, _Problem, fit, predict, regime
from tests.cost.regimes import Constants, Regime

RATE = 450e9
TRUE = Constants(
    "all_reduce",
    (
        Regime("one-shot", 3e-6, 1e-7, 0.6),
        Regime("two-shot", 1.2e-5, 2e-7, 0.5),
        Regime("ring", 4e-5, 1e-6, 0.8),
        Regime("in-switch", 3e-5, 1e-6, 0.7),
    ),
    sharpness=12.0,
)
NOISE = 0.02


def rows(ranks: tuple[float, ...] = (2.0, 8.0), noise: float = NOISE, step: int = 1) -> Rows:
    """Sizes from 256 B to 1 GiB; on eight ranks both with and without the switch."""
    sizes = 2.0 ** np.arange(8, 31, step)
    size, n, adds = (axis.ravel() for axis in np.meshgrid(sizes, ranks, [False, True]))
    blank = Rows(size, n, np.ones_like(size), adds.astype(bool))
    random = np.random.default_rng(1)
    scale = np.exp(random.normal(0.0, noise, size.shape))
    return replace(blank, measured=predict(TRUE, blank, RATE) * scale)


def known(given: Rows, starts: int = 3) -> Constants:
    return fit(given, "all_reduce", CUSTOM["all_reduce"], RATE, starts=starts)


def test_constants_are_recovered_within_the_noise() -> None:
    found = known(rows())
    for got, true in zip(found.regimes, TRUE.regimes, strict=True):
        assert got.path == true.path
        assert got.start == pytest.approx(true.start, rel=0.15)
        assert got.efficiency == pytest.approx(true.efficiency, rel=0.05)


def test_sizes_and_ranks_between_the_measured_are_known_within_the_noise() -> None:
    between = rows((2.0, 4.0, 6.0, 8.0), noise=0.0)
    between = replace(between, payload=between.payload * 1.4)
    true = predict(TRUE, between, RATE)
    off = np.abs(predict(known(rows(step=2)), between, RATE) / true - 1)
    assert np.median(off) < NOISE
    assert off.max() < 5 * NOISE


def test_a_few_wild_rows_do_not_move_the_fit() -> None:
    given = rows()
    wild = given.measured.copy()
    wild[::17] *= 3.0
    found = known(replace(given, measured=wild))
    off = np.abs(predict(found, given, RATE) / given.measured - 1)
    assert np.median(off) < 2 * NOISE


def test_the_same_rows_give_the_same_constants() -> None:
    assert known(rows()) == known(rows())


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e3, 1e9])
def test_bounds_hold_whatever_was_measured(factor: float) -> None:
    given = rows()
    found = known(replace(given, measured=given.measured * factor), starts=1)
    for one in found.regimes:
        for name in ("start", "message", "efficiency"):
            assert BOUNDS[name][0] <= getattr(one, name) <= BOUNDS[name][1]


def test_derivatives_are_those_of_the_residuals() -> None:
    problem = _Problem(rows(), "all_reduce", CUSTOM["all_reduce"], RATE)
    x = problem.prior + np.random.default_rng(2).normal(0, 0.3, problem.prior.shape)
    step = 1e-6
    numeric = [
        (problem.residuals(x + step * unit) - problem.residuals(x - step * unit)) / (2 * step)
        for unit in np.eye(len(x))
    ]
    np.testing.assert_allclose(problem.jacobian(x), np.array(numeric).T, atol=1e-7)


def test_the_fit_prices_as_the_formula_does() -> None:
    given = rows()
    problem = _Problem(given, "all_reduce", CUSTOM["all_reduce"], RATE)
    x = problem.prior
    ratio = predict(problem.constants(x), given, RATE) / given.measured
    np.testing.assert_allclose(problem.residuals(x)[: len(given)], np.log(ratio), rtol=1e-9)


def test_a_machine_whose_switch_does_not_add_has_no_such_regime() -> None:
    assert "in-switch" in algorithms(NCCL, "all_reduce", in_switch=True)
    assert "in-switch" not in algorithms(NCCL, "all_reduce", in_switch=False)


@pytest.mark.slow
def test_a_held_out_octave_moves_neither_its_prediction_nor_its_interval() -> None:
    given = rows(step=2)
    octave = octaves(given.payload)
    held = octave == 20
    slower = np.where(held, 3.0, 1.0) * given.measured

    def scored(measured: Array) -> tuple[Array, Array]:
        seen = replace(given, measured=measured)
        return with_spread(
            octave // 2 % 4,
            measured,
            lambda which: known(seen[which], starts=1),
            lambda model, which: predict(model, seen[which], RATE),
            lambda model, which: regime(model, seen[which], RATE),
        )

    fold = octave // 2 % 4 == 20 // 2 % 4
    before, after = scored(given.measured), scored(slower)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one[fold], other[fold])
        assert (one[~fold] != other[~fold]).any()


def test_too_few_rows_are_one_clear_error() -> None:
    for count in (0, 12):
        with pytest.raises(InputError, match=f"{count} measured collectives cannot fit 13") as it:
            known(rows()[np.arange(92) < count])
        assert "at least 13 sizes" in it.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [("measured", 0.0), ("measured", np.nan), ("payload", -1.0), ("ranks", 1.0), ("ranks", np.inf)],
)
def test_a_row_without_meaning_is_named(name: str, value: float) -> None:
    given = rows()
    getattr(given, name)[5] = value
    with pytest.raises(InputError, match=f"row 5 has {name} = "):
        known(given)
