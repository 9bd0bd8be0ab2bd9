"""Carbon intensity of electricity by country, a year's mean over all that was generated.

Source: Ember, Yearly Electricity Data, emissions intensity over the life cycle, as collected in
github.com/thegreenwebfoundation/co2.js, data/output/average-intensities.json @6628f83f.
"""

from typing import Final

from msgspec import Struct

from roofline.errors import InputError, UnknownNameError, did_you_mean

SOURCE: Final = "Ember, Yearly Electricity Data, by co2.js @6628f83f"


class CarbonIntensity(Struct, frozen=True):
    """Greenhouse gas of a kilowatt-hour."""

    grams_per_kwh: float
    """CO2 equivalent. [g/kWh]"""
    name: str = ""
    year: int = 0
    """Country or region, and year of the mean; empty and 0 for a figure of one's own."""

    def __str__(self) -> str:
        """The figure in words, with where it is from."""
        of = f", {self.name} {self.year}, {SOURCE}" if self.name else ""
        return f"{self.grams_per_kwh:g} g CO2e/kWh{of}"


_TABLE: Final = (
    ("Brazil", "BR", 103.21, 2024),
    ("Canada", "CA", 174.81, 2024),
    ("China", "CN", 559.55, 2024),
    ("Denmark", "DK", 143.3, 2024),
    ("EU", "EU", 213.31, 2024),
    ("Finland", "FI", 72.25, 2024),
    ("France", "FR", 44.18, 2024),
    ("Germany", "DE", 344.14, 2024),
    ("Iceland", "IS", 28.33, 2023),
    ("India", "IN", 708.32, 2024),
    ("Ireland", "IE", 279.7, 2024),
    ("Japan", "JP", 482.32, 2024),
    ("Netherlands", "NL", 253.31, 2024),
    ("Norway", "NO", 30.75, 2024),
    ("Poland", "PL", 614.98, 2024),
    ("Singapore", "SG", 498.74, 2024),
    ("South Korea", "KR", 414.27, 2024),
    ("Spain", "ES", 146.15, 2024),
    ("Sweden", "SE", 35.82, 2024),
    ("Switzerland", "CH", 36.6, 2024),
    ("United Arab Emirates", "AE", 492.7, 2023),
    ("United Kingdom", "GB", 210.89, 2024),
    ("United States", "US", 383.55, 2024),
    ("World", "world", 473.05, 2024),
)
GRIDS: Final = {
    code.lower(): CarbonIntensity(grams, name, year) for name, code, grams, year in _TABLE
}
"""Intensities by the two letters of ISO 3166-1, ``eu`` and ``world``."""
MOST: Final = 2000.0
"""Intensity beyond that of any fuel. [g/kWh]"""


def carbon_intensity(asked: str | float) -> CarbonIntensity:
    """Carbon intensity of a figure [g/kWh], or of a country or region by name or code.

    Raises:
        UnknownNameError, InputError: No such name; a figure below 0 or beyond that of any fuel.

    Examples:
        >>> carbon_intensity("France").grams_per_kwh, carbon_intensity("120").grams_per_kwh
        (44.18, 120.0)
    """
    try:
        value = float(asked)
    except ValueError:
        text = str(asked).strip().lower().replace("_", " ").replace("-", " ")
        called = GRIDS | {each.name.lower(): each for each in GRIDS.values()}
        if text in called:
            return called[text]
        raise UnknownNameError(
            f"no grid is called {asked!r:.40}",
            hint=f"{did_you_mean(text, called)}give grams of CO2e for a kWh, or one of "
            f"{', '.join(GRIDS)}",
        ) from None
    if not 0 <= value <= MOST:
        raise InputError(
            f"carbon intensity of {value:g} g/kWh", hint=f"give grams for a kWh, 0 to {MOST:g}"
        )
    return CarbonIntensity(value)
