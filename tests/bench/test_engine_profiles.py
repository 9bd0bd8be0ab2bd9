"""Shipped constants of engines, read by those who price."""

import pytest

from roofline.bench.end_to_end.engines import PROFILES
from roofline.bench.end_to_end.profiles import profile_of
from roofline.bench.engine_profiles import shipped_profile
from roofline.cost.engine_costs import NO_ENGINE
from roofline.hardware.engine import engine, engine_names


@pytest.mark.parametrize("name", engine_names(unlisted=True))
def test_a_profile_is_what_the_fit_makes_of_all_files(name: str) -> None:
    found = shipped_profile(engine(name))
    assert found == profile_of(engine(name))
    assert (found == NO_ENGINE) == (engine(name).profile not in PROFILES)
