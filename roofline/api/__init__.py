"""The questions people ask, one function each. They return tables; nothing here prints.

Each is imported where it is first used: a process that prices sweeps needs no planner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofline.api.analysis import analyze as analyze
    from roofline.api.analysis import explain as explain
    from roofline.api.analysis import paging as paging
    from roofline.api.checking import doctor as doctor
    from roofline.api.commands import deployment_of_command as deployment_of_command
    from roofline.api.commands import parse_command as parse_command
    from roofline.api.commands import serve_command as serve_command
    from roofline.api.comparison import compare as compare
    from roofline.api.comparison import layouts as layouts
    from roofline.api.disaggregation import disaggregate as disaggregate
    from roofline.api.learning import learn_engine as learn_engine
    from roofline.api.learning import learn_log as learn_log
    from roofline.api.measured import compare_measured as compare_measured
    from roofline.api.parameters import DEFAULT_GPU as DEFAULT_GPU
    from roofline.api.parameters import DEFAULT_MODEL as DEFAULT_MODEL
    from roofline.api.parameters import Convention as Convention
    from roofline.api.planning import plan as plan
    from roofline.api.scores import scoreboard as scoreboard
    from roofline.api.setting import MOST_GPUS as MOST_GPUS
    from roofline.api.setting import gpus as gpus
    from roofline.api.setting import models as models
    from roofline.api.simulation import simulate as simulate
    from roofline.api.speculation import speculate as speculate
    from roofline.api.sweeps import sweep as sweep
    from roofline.interop.results import RunOptions as RunOptions

_MODULES: Final = {
    "analysis": ("analyze", "explain", "paging"),
    "checking": ("doctor",),
    "commands": ("deployment_of_command", "parse_command", "serve_command"),
    "comparison": ("compare", "layouts"),
    "disaggregation": ("disaggregate",),
    "learning": ("learn_engine", "learn_log"),
    "measured": ("compare_measured",),
    "measured_rows": ("RunOptions",),
    "parameters": ("DEFAULT_GPU", "DEFAULT_MODEL", "Convention"),
    "planning": ("plan",),
    "scores": ("scoreboard",),
    "setting": ("MOST_GPUS", "gpus", "models"),
    "simulation": ("simulate",),
    "speculation": ("speculate",),
    "sweeps": ("sweep",),
}
_WHERE: Final = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found
