"""Published configs against networks built from them, where there is no golden row."""

from pathlib import Path
from typing import Final

import pytest

from roofline.model import parameters
from roofline.model.architecture import Architecture
from roofline.model.huggingface import from_config
from roofline.schema import read

from .built import ADVERTISED, BUILT

BILLION: Final = 10**9
REAL: Final = Path(__file__).resolve().parents[3] / "shared" / "hf-configs" / "real"
needs_configs = pytest.mark.skipif(not REAL.is_dir(), reason="published configs are not there")


def network(stem: str) -> Architecture:
    return from_config(read(REAL / f"{stem}_config.json", infinity=True))


@needs_configs
@pytest.mark.parametrize("stem", sorted(BUILT))
def test_a_published_config_has_the_total_of_the_network_built_from_it(stem: str) -> None:
    assert parameters.total(network(stem)) == BUILT[stem]


@needs_configs
@pytest.mark.parametrize("stem", sorted(ADVERTISED))
def test_a_network_that_cannot_be_built_has_the_published_total(stem: str) -> None:
    published, slack = ADVERTISED[stem]
    assert parameters.total(network(stem)) == pytest.approx(published, rel=slack, abs=0)


@needs_configs
@pytest.mark.parametrize(
    ("stem", "billions"),
    [
        ("nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 12),
        ("nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 55),
        ("Qwen--Qwen3.5-35B-A3B", 3),
        ("deepseek-ai--DeepSeek-V4-Flash", 13),
        ("deepseek-ai--DeepSeek-V4-Pro", 49),
    ],
)
def test_active_parameters_are_those_in_the_name(stem: str, billions: int) -> None:
    every = parameters.active(network(stem))
    assert round(every["minus_embeddings"] / BILLION) <= billions <= round(every["all"] / BILLION)


@needs_configs
def test_a_network_has_the_same_shape_under_its_other_name() -> None:
    hub = network("deepseek-ai--DeepSeek-V4-Pro")
    other = network("sgl-project--DeepSeek-V4-Pro-FP8")
    assert parameters.parts(hub) == parameters.parts(other)
    assert parameters.kv_elements_per_token(hub) == parameters.kv_elements_per_token(other)
