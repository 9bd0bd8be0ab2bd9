"""The questions people ask, one function each. They return tables; nothing here prints.

Each is imported where it is first used: a process that prices sweeps needs no planner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofline.api.analysis import analyze as analyze
    from roofline.api.analysis import explain as explain
    from roofline.api.checking import doctor as doctor
    from roofline.api.command_reading import deployment_of_command as deployment_of_command
    from roofline.api.command_reading import parse_command as parse_command
    from roofline.api.commands import serve_command as serve_command
    from roofline.api.comparison import compare as compare
    from roofline.api.disaggregation import disaggregate as disaggregate
    from roofline.api.learning import learn_engine as learn_engine
    from roofline.api.measured import compare_measured as compare_measured
    from roofline.api.measured_rows import Given as Given
    from roofline.api.pages import paging as paging
    from roofline.api.parameters import DEFAULT_GPU as DEFAULT_GPU
    from roofline.api.parameters import DEFAULT_MODEL as DEFAULT_MODEL
    from roofline.api.parameters import Convention as Convention
    from roofline.api.placing import layouts as layouts
    from roofline.api.planning import plan as plan
    from roofline.api.scores import scoreboard as scoreboard
    from roofline.api.setting import MOST_GPUS as MOST_GPUS
    from roofline.api.simulation import simulate as simulate
    from roofline.api.speculation import speculate as speculate
    from roofline.api.sweeps import sweep as sweep

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
    "DEFAULT_GPU": "parameters",
    "DEFAULT_MODEL": "parameters",
    "Convention": "parameters",
    "layouts": "placing",
    "plan": "planning",
    "scoreboard": "scores",
    "MOST_GPUS": "setting",
    "simulate": "simulation",
    "speculate": "speculation",
    "sweep": "sweeps",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found
