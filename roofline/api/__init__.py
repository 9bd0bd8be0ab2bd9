"""The questions people ask, one function each. They return tables; nothing here prints."""

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
from roofline.api.placing import layouts
from roofline.api.planning import plan
from roofline.api.setting import DEFAULT_GPU, DEFAULT_MODEL, MOST_GPUS, Convention
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
    "serve_command",
    "simulate",
    "speculate",
    "sweep",
]
