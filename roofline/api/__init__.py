"""The questions people ask, one function each. They return tables; nothing here prints.

Each is imported where it is first used: a process that prices sweeps needs no planner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofline.api.analysis import analyze, explain
    from roofline.api.checking import doctor
    from roofline.api.command_reading import deployment_of_command, parse_command
    from roofline.api.commands import serve_command
    from roofline.api.comparison import compare
    from roofline.api.disaggregation import disaggregate
    from roofline.api.learning import learn_engine
    from roofline.api.measured import compare_measured
    from roofline.api.measured_rows import Given
    from roofline.api.pages import paging
    from roofline.api.parameters import DEFAULT_GPU, DEFAULT_MODEL, Convention
    from roofline.api.placing import layouts
    from roofline.api.planning import plan
    from roofline.api.scores import scoreboard
    from roofline.api.setting import MOST_GPUS
    from roofline.api.simulation import simulate
    from roofline.api.speculation import speculate
    from roofline.api.sweeps import sweep

__all__ = [
    "DEFAULT_GPU",
    "DEFAULT_MODEL",
    "MOST_GPUS",
    "Convention",
    "Given",
    "analyze",
    "compare",
    "compare_measured",
    "deployment_of_command",
    "disaggregate",
    "doctor",
    "explain",
    "layouts",
    "learn_engine",
    "paging",
    "parse_command",
    "plan",
    "scoreboard",
    "serve_command",
    "simulate",
    "speculate",
    "sweep",
]

_WHERE: Final = {
    "analyze": "analysis",
    "explain": "analysis",
    "doctor": "checking",
    "deployment_of_command": "command_reading",
    "parse_command": "command_reading",
    "serve_command": "commands",
    "compare": "comparison",
    "disaggregate": "disaggregation",
    "learn_engine": "learning",
    "compare_measured": "measured",
    "Given": "measured_rows",
    "paging": "pages",
    "layouts": "placing",
    "plan": "planning",
    "scoreboard": "scores",
    "DEFAULT_GPU": "parameters",
    "DEFAULT_MODEL": "parameters",
    "MOST_GPUS": "setting",
    "Convention": "parameters",
    "simulate": "simulation",
    "speculate": "speculation",
    "sweep": "sweeps",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found
