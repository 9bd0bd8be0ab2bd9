"""Options of a command and parameters of its question are the same."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import typer

from roofline import api
from roofline.api.disaggregation import disaggregate
from roofline.api.pages import paging
from roofline.api.speculation import speculate
from roofline.cli import app
from roofline.cli.inputs import asked

QUESTIONS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "analyze": (api.analyze, set()),
    "compare": (api.compare, {"with_"}),
    "disaggregate": (disaggregate, set()),
    "layouts": (api.layouts, {"top"}),
    "paging": (paging, set()),
    "plan": (api.plan, {"kv", "training_tokens"}),
    "serve-command": (api.serve_command, {"target", "draft"}),
    "simulate": (api.simulate, {"profile", "intervals", "out", "timeline"}),
    "speculate": (speculate, set()),
}

SPELLED = {"offload_weights", "headroom", "confidence"}
"""Options whose numbers are written otherwise on the command line: 0, 0%."""


@pytest.mark.parametrize("command", QUESTIONS)
def test_every_option_is_a_parameter_of_the_question(command: str) -> None:
    question, own = QUESTIONS[command]
    made = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    context = made.make_context(command, [])
    found = asked(context, *own)
    known = inspect.signature(question).parameters
    assert set(found) <= set(known)
    for name, value in found.items():
        usual = known[name].default
        if usual is not inspect.Parameter.empty and name not in SPELLED:
            assert str(usual) == str(value), name
