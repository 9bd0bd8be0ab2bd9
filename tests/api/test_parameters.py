"""Functions of Python that are made from records of parameters."""

import inspect
from typing import Any

import pytest

from roofline import api
from roofline.api import parameters
from roofline.api.question import Question, parameters_of, shared
from roofline.api.setting import Degrees
from roofline.api.workload import OfferedLoad
from roofline.cost.adapters import Lora
from roofline.cost.deployment import Options
from roofline.cost.sampling import Sampling
from roofline.interop.results import RunOptions
from roofline.model.tower import Media
from roofline.serving.simulate.server import ServerOptions
from roofline.serving.workload import Workload

RECORDS: dict[str, type[Question]] = {
    "analyze": parameters.Analysis,
    "compare": parameters.Comparison,
    "compare_measured": parameters.MeasuredComparison,
    "disaggregate": parameters.PoolComparison,
    "layouts": parameters.LayoutComparison,
    "paging": parameters.Paging,
    "plan": parameters.Planning,
    "serve_command": parameters.ServeCommandQuestion,
    "simulate": parameters.Simulation,
    "speculate": parameters.DraftComparison,
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_question_takes_what_its_record_lists(name: str) -> None:
    taken = inspect.signature(getattr(api, name)).parameters
    listed = parameters_of(RECORDS[name])
    assert set(taken) == set(listed)
    for key, (_, parameter) in listed.items():
        assert taken[key].default == parameter.value, key
        assert (taken[key].kind is inspect.Parameter.KEYWORD_ONLY) == parameter.kw_only, key


def test_model_and_device_go_by_place_and_everything_else_by_name() -> None:
    assert list(inspect.signature(api.analyze).parameters)[:2] == ["model", "gpu"]
    assert list(inspect.signature(api.compare).parameters)[:3] == ["model", "changes", "gpu"]
    ask: Any = api.analyze
    with pytest.raises(TypeError, match="too many positional arguments"):
        ask("llama-3.1-8b", "h100-sxm", 8)


def test_what_no_question_has_or_none_can_do_without_is_a_type_error() -> None:
    ask: Any = api.speculate
    with pytest.raises(TypeError, match="unexpected keyword argument 'btach'"):
        ask(draft="eagle", acceptance=0.7, btach=8)
    with pytest.raises(TypeError, match="missing a required argument: 'draft'"):
        ask(acceptance=0.7)


def test_a_docstring_has_the_words_and_the_unit_of_a_parameter() -> None:
    told = inspect.getdoc(api.analyze) or ""
    assert "\n    prompt: Tokens of each prompt. [token]\n" in told
    assert "One of ``flash``, ``naive``." in told
    assert told.endswith("\n\nRaises:\n    RooflineError: Anything the user can mend.")


def test_a_question_may_state_a_parameter_anew() -> None:
    assert parameters_of(parameters.Batch)["batch"][1].default == 16
    assert parameters_of(parameters.Paging)["batch"][1].default == 256
    assert parameters_of(parameters.PoolComparison)["batch"][1].default == 64


@pytest.mark.parametrize(
    ("kind", "record", "own"),
    [
        (Workload, parameters.Analysis, set()),
        (Options, parameters.Analysis, {"logits", "lora", "media", "sampling", "sram_bytes"}),
        (Sampling, parameters.Analysis, set()),
        (Lora, parameters.Analysis, set()),
        (Media, parameters.Analysis, {"after"}),
        (Degrees, parameters.Analysis, {"spelled"}),
        (OfferedLoad, parameters.Simulation, {"media"}),
        (
            ServerOptions,
            parameters.Simulation,
            {"sharing", "tier_bytes", "disk_bytes", "pool_bytes"},
        ),
        (RunOptions, parameters.MeasuredComparison, set()),
    ],
)
def test_what_is_handed_on_by_name_has_the_names_of_the_question(
    kind: Any, record: type[Question], own: set[str]
) -> None:
    known = parameters_of(record)
    question = record(**dict.fromkeys(known, 1))
    assert set(shared(question, kind)) == set(kind.__struct_fields__) - own
