"""Options of a command and parameters of its question are the same."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from roofline import api
from roofline.api import parameters
from roofline.api.question import Question
from roofline.cli import _commands
from roofline.cli.inputs import asked

QUESTIONS: dict[str, tuple[Callable[..., Any], type[Question]]] = {
    "analyze": (api.analyze, parameters.Analysis),
    "compare": (api.compare, parameters.Comparison),
    "disaggregate": (api.disaggregate, parameters.PoolComparison),
    "layouts": (api.layouts, parameters.LayoutComparison),
    "paging": (api.paging, parameters.Paging),
    "plan": (api.plan, parameters.Planning),
    "serve-command": (api.serve_command, parameters.ServeCommandQuestion),
    "simulate": (api.simulate, parameters.Simulation),
    "speculate": (api.speculate, parameters.DraftComparison),
}

SPELLED = {"offload_weights", "headroom", "confidence"}
"""Options whose numbers are written otherwise on the command line: 0, 0%."""


@pytest.mark.parametrize("command", QUESTIONS)
def test_every_option_is_a_parameter_of_the_question(command: str) -> None:
    question, record = QUESTIONS[command]
    made = _commands(command).commands[command]
    context = made.make_context(command, [])
    found = asked(context, record)
    known = inspect.signature(question).parameters
    assert set(found) <= set(known)
    for name, value in found.items():
        usual = known[name].default
        if usual is not inspect.Parameter.empty and name not in SPELLED:
            assert str(usual) == str(value), name
