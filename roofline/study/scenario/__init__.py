"""Scenarios: which configurations to price, what they must keep to, and what is wanted of them."""

from roofline.study.scenario.limits import Limit, Objective, missed
from roofline.study.scenario.reading import read_scenario, scenario_named, scenario_names
from roofline.study.scenario.scenario import Scenario

__all__ = [
    "Limit",
    "Objective",
    "Scenario",
    "missed",
    "read_scenario",
    "scenario_named",
    "scenario_names",
]
