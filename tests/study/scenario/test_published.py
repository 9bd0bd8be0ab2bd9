"""The published schema and the strict reader agree on what the shape of a scenario is."""

import json
from typing import Any

import jsonschema
import pytest

from roofline.content import shipped
from roofline.errors import DocumentError
from roofline.schema import read
from roofline.study.scenario.files import schema
from roofline.study.scenario.reading import scenario_names
from tests.study.scenario.documents import BATCH, TRAFFIC, scenario

VALIDATOR = jsonschema.Draft202012Validator(schema())


def fits(data: Any) -> bool:
    return bool(VALIDATOR.is_valid(data))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_one_beside_the_scenarios_is_this_one() -> None:
    beside = shipped("scenarios") / "scenario.schema.json"
    assert json.loads(beside.read_text("utf-8")) == schema(), "roofline schema --out writes it"


@pytest.mark.parametrize("name", scenario_names())
def test_every_shipped_scenario_fits(name: str) -> None:
    path = shipped("scenarios") / f"{name}.yaml"
    VALIDATOR.validate(read(path).data)
    assert path.read_text("utf-8").startswith(
        "# yaml-language-server: $schema=scenario.schema.json\n"
    )


GOOD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (BATCH, {}),
    (TRAFFIC, {}),
    (BATCH, {"batch": {"from": 1, "to": 8, "step": 1}}),
    (BATCH, {"batch": {"from": 1, "to": 8, "points": 4, "scale": "log"}}),
    (BATCH, {"models": {"model": "llama-3.1-8b", "with": "window=1024"}}),
    (BATCH, {"layouts": {"gpus": [1, 2], "choose": "cost"}}),
    (BATCH, {"constraints": {"ttft_s_high": "500 ms", "memory": "fits", "gpus": 8}}),
    (BATCH, {"objectives": "min tpot_s"}),
    (BATCH, {"objectives": ["max user_tok_s_low", "min gpus"]}),
    (BATCH, {"techniques": ["plain", {"offload": {"weights": "auto"}}]}),
    (BATCH, {"patches": [{"name": "big", "memory": "141 GiB", "with": "cla=2"}]}),
    (BATCH, {"keep": "top-20"}),
    (BATCH, {"prompt": ["1k", "32k", 512]}),
    (BATCH, {"prompt": {"from": "1k", "to": "4K", "points": 3}}),
    (BATCH, {"each": "models"}),
    (BATCH, {"each": ["models", "gpus"], "keep": "top-1"}),
    (TRAFFIC, {"rate": None, "concurrency": [1, 2]}),
    (TRAFFIC, {"workloads": [{"name": "mine", "prompt": "100..200", "output": 50}, "chat"]}),
]
BAD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (BATCH, {"schema_version": 2}),
    (BATCH, {"name": "My Study"}),
    (BATCH, {"title": None}),
    (BATCH, {"models": []}),
    (BATCH, {"models": None}),
    (BATCH, {"models": [{"model": "llama-3.1-8b"}]}),
    (BATCH, {"model": "llama-3.1-8b"}),
    (BATCH, {"batch": "16"}),
    (BATCH, {"batch": "16 k"}),
    (BATCH, {"batch": []}),
    (BATCH, {"batch": {"from": 1, "to": 8}}),
    (BATCH, {"batch": {"from": 1, "to": 8, "step": 1, "points": 3}}),
    (BATCH, {"batch": {"from": 1, "to": 8, "points": 3, "scale": "ln"}}),
    (BATCH, {"rate": 1}),
    (TRAFFIC, {"batch": 1}),
    (TRAFFIC, {"techniques": "plain"}),
    (BATCH, {"constraints": {"ttft": "500 ms"}}),
    (BATCH, {"constraints": {"queue_s": "500 ms"}}),
    (BATCH, {"constraints": {"ttft_s": ["500 ms"]}}),
    (BATCH, {"objectives": "usd_per_mtok"}),
    (BATCH, {"objectives": "min cost"}),
    (BATCH, {"techniques": "speculation"}),
    (BATCH, {"techniques": {"prefix_hit": 1.0}}),
    (BATCH, {"patches": [{"memory": "141 GiB"}]}),
    (BATCH, {"keep": "best"}),
    (BATCH, {"each": "batch"}),
    (BATCH, {"each": []}),
    (BATCH, {"layouts": {"gpus": 0}}),
    (BATCH, {"zip": [["prompt"]]}),
    (BATCH, {"kind": "stream"}),
]


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


@pytest.mark.parametrize(("base", "changes"), GOOD)
def test_what_is_read_fits(base: dict[str, Any], changes: dict[str, Any]) -> None:
    scenario(base, **changes)
    assert fits(changed(base, changes))


@pytest.mark.parametrize(("base", "changes"), BAD)
def test_what_does_not_fit_is_not_read(base: dict[str, Any], changes: dict[str, Any]) -> None:
    assert not fits(changed(base, changes))
    with pytest.raises(DocumentError):
        scenario(base, **changes)
