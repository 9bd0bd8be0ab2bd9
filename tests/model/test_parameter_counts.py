"""Every branch of the importer, against networks built by transformers."""

import csv
import json
from pathlib import Path
from typing import Final

import pytest

from roofline.model import parameters
from roofline.model.huggingface import BUILDERS, from_config
from roofline.schema import parse_json

PATH: Final = Path(__file__).resolve().parents[1] / "golden" / "parameter_counts.csv"
ROWS: Final = list(csv.DictReader(PATH.read_text().splitlines()))
REMOTE: Final = {
    "qwen",
    "internlm2",
    "baichuan",
    "chatglm",
    "bailing_moe",
    "minicpm",
    "mimo",
    "llada",
    "Dream",
    "nemotron-nas",
    "kimi_k2",
    "kimi_k3",
    "rwkv7",
}
"""Types whose code is not in transformers: the catalog holds their published totals."""
ENCODERS: Final = {"clip", "clip_vision_model", "siglip", "siglip_vision_model", "vmoe"}
"""Types whose sizes `tests/model/test_media.py` holds to published totals."""
LEGACY: Final = {"RefinedWeb", "RefinedWebModel", "deepseek_ref"}
"""Other names of a type: Falcon's first ones, and DeepSeek-V4's in its own code."""


def model_type(row: dict[str, str]) -> str:
    return str(json.loads(row["config"])["model_type"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{model_type(row)}-{row['parameters']}")
def test_a_network_counts_as_it_is_built(row: dict[str, str]) -> None:
    network = from_config(parse_json(row["config"], "config.json"))
    found = (
        parameters.total(network) + sum(network.other_parameters.values()),
        parameters.kv_elements_per_token(network),
        parameters.kv_elements_per_token(network, beyond_window=True),
    )
    assert found == tuple(
        int(row[column])
        for column in (
            "parameters",
            "kv_elements_per_token",
            "kv_elements_per_token_beyond_window",
        )
    )


def test_every_model_type_has_been_built() -> None:
    assert {model_type(row) for row in ROWS} | REMOTE | ENCODERS | LEGACY == set(BUILDERS)


FALCON: Final = {"hidden_size": 64, "vocab_size": 100, "bias": False, "alibi": False}
GEOMETRY: Final = {"n_layer": 3, "n_head": 8}
MODERN: Final = {"num_hidden_layers": 3, "num_attention_heads": 8}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            {"model_type": "RefinedWeb", "n_head_kv": 2, "parallel_attn": True},
            {"model_type": "falcon", "num_kv_heads": 2, "new_decoder_architecture": True},
        ),
        (
            {"model_type": "RefinedWebModel", "multi_query": True, "parallel_attn": True},
            {"model_type": "falcon", "multi_query": True},
        ),
        (
            {"model_type": "RefinedWebModel", "alibi": True, "bias": True},
            {
                "model_type": "falcon",
                "multi_query": False,
                "parallel_attn": False,
                "alibi": True,
                "bias": True,
            },
        ),
    ],
    ids=["40b", "7b", "rw"],
)
def test_falcon_is_the_same_network_under_its_first_name(
    old: dict[str, object], new: dict[str, object]
) -> None:
    first = from_config(parse_json(json.dumps(FALCON | GEOMETRY | old), "a.json"))
    later = from_config(parse_json(json.dumps(FALCON | MODERN | new), "b.json"))
    assert first.layers == later.layers
    assert parameters.parts(first) == parameters.parts(later)
