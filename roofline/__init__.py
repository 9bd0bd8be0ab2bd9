"""Roofline and arithmetic-intensity simulator for LLM inference.

The questions people ask are functions of `roofline.api`, reachable from here:

>>> import roofline
>>> result = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=1, prompt=512, output=2)
>>> result.tpot.unit, result.tpot.low < result.tpot.value < result.tpot.high
('s', True)

Answers are made of tables (`roofline.table`). Machines and networks are given by name, by file or
as what `roofline.hardware.catalog` and `roofline.model.catalog` return, sweeps as in
`roofline.study.scenario`. What is wrong with a question is one of `roofline.errors`. The closed
forms of the lecture are in `roofline.cost.textbook`, quantities as text in `roofline.units`.
"""

from typing import TYPE_CHECKING, Any

from roofline.table import Notebook, Terminal, shown_by
from roofline.version import __version__

__all__ = [
    "__version__",
    "analyze",
    "compare",
    "compare_measured",
    "disaggregate",
    "doctor",
    "gpus",
    "layouts",
    "learn_engine",
    "learn_log",
    "models",
    "paging",
    "parse_command",
    "plan",
    "scoreboard",
    "serve_command",
    "simulate",
    "speculate",
    "sweep",
]

if TYPE_CHECKING:
    from roofline.api import (
        analyze,
        compare,
        compare_measured,
        disaggregate,
        doctor,
        gpus,
        layouts,
        learn_engine,
        learn_log,
        models,
        paging,
        parse_command,
        plan,
        scoreboard,
        serve_command,
        simulate,
        speculate,
        sweep,
    )


def __getattr__(name: str) -> Any:
    """Import the API where it is used: ``import roofline`` stays light."""
    if name in __all__:
        from roofline import api

        globals()[name] = found = getattr(api, name)  # which is asked for once
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The questions, for completion."""
    return __all__


def _notebook() -> Notebook:
    """Module that shows answers in a notebook, imported when one is shown."""
    from roofline.report import notebook

    return notebook


def _terminal() -> Terminal:
    """Module that writes answers as text, imported when one is written."""
    from roofline.view import terminal

    return terminal


shown_by(_notebook, _terminal)
