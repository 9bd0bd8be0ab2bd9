"""Scenarios as documents, to be changed by tests."""

import json
from pathlib import Path
from typing import Any

from roofline.schema import Document, parse_json
from roofline.study.scenario.reading import scenario_of
from roofline.study.scenario.scenario import Scenario

BATCH: dict[str, Any] = {
    "schema_version": 1,
    "name": "try",
    "title": "What is best?",
    "kind": "batch",
    "models": ["llama-3.1-8b"],
    "batch": [1, 16],
}
TRAFFIC: dict[str, Any] = {
    "schema_version": 1,
    "name": "try",
    "title": "What is best?",
    "kind": "traffic",
    "models": "llama-3.1-8b",
    "rate": [1, 2],
}


def document(base: dict[str, Any], **changes: Any) -> Document:
    """A scenario with changes; None takes a key away."""
    data = {key: value for key, value in {**base, **changes}.items() if value is not None}
    return parse_json(json.dumps(data), "try.json")


def scenario(base: dict[str, Any], **changes: Any) -> Scenario:
    return scenario_of(document(base, **changes), Path())
