"""Carbon intensity by figure, name and code."""

import pytest

from roofline.errors import InputError, UnknownNameError
from roofline.hardware.carbon import GRIDS, carbon_intensity


def test_a_country_is_known_by_name_and_by_code() -> None:
    for asked in ("France", "fr", " FRANCE "):
        assert carbon_intensity(asked).grams_per_kwh == 44.18
    assert carbon_intensity("united-kingdom") == carbon_intensity("gb")


def test_every_entry_says_its_year() -> None:
    assert len(GRIDS) > 12
    assert all(
        2023 <= each.year <= 2025 and 0 < each.grams_per_kwh < 1000 for each in GRIDS.values()
    )
    assert "2024" in str(carbon_intensity("de"))


def test_a_figure_of_ones_own_is_taken() -> None:
    assert carbon_intensity(12.5).grams_per_kwh == carbon_intensity("12.5").grams_per_kwh == 12.5
    assert str(carbon_intensity(0)) == "0 g CO2e/kWh"


def test_what_is_mistyped_is_told_what_is_near() -> None:
    with pytest.raises(UnknownNameError, match="germny") as found:
        carbon_intensity("germny")
    assert "did you mean germany?" in found.value.hint


@pytest.mark.parametrize("asked", [-1.0, "nan", "inf", 5000])
def test_a_figure_that_cannot_be_is_refused(asked: str | float) -> None:
    with pytest.raises(InputError):
        carbon_intensity(asked)
