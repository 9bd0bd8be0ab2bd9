"""Networks from configs that are written down here."""

import json
import re
from typing import Any

import pytest

from roofline.errors import UnsupportedModelError
from roofline.model.architecture import Architecture
from roofline.model.huggingface import from_config
from roofline.schema import parse_json


def load(config: dict[str, Any]) -> Architecture:
    return from_config(parse_json(json.dumps(config, indent=1), "config.json"), "net")


def refusal(config: dict[str, Any], key: str) -> UnsupportedModelError:
    """The error, which is at the line of a key or of what is inside it."""
    with pytest.raises(UnsupportedModelError) as caught:
        load(config)
    assert caught.value.hint
    found = re.fullmatch(r"config\.json:(\d+):\d+", caught.value.where)
    assert found is not None
    lines = json.dumps(config, indent=1).splitlines()
    first = next(n for n, line in enumerate(lines, 1) if line.startswith(f' "{key}"'))
    last = first + len(json.dumps(config[key], indent=1).splitlines()) - 1
    assert first <= int(found[1]) <= last
    return caught.value
