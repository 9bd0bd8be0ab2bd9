"""Docker Compose files: services, their environment, and what they contradict."""

import pytest

from roofline.cost.layout import Layout
from roofline.errors import RooflineError
from roofline.interop.commands import targets
from roofline.interop.commands.reading import ParsedCommand
from roofline.schema import Document

SERVICE = """\
services:
  proxy:
    image: nginx:1.29
  llm:
    image: vllm/vllm-openai:v0.33.0
    command: --model org/m --tensor-parallel-size 2 --max-model-len ${LENGTH:-4096}
    deploy:
      replicas: 3
      resources:
        reservations:
          devices:
            - driver: nvidia
              count: 2
              capabilities: [gpu]
"""
TGI = """\
services:
  llm:
    image: ghcr.io/huggingface/text-generation-inference:3.3.5
    environment:
      MODEL_ID: org/m
      NUM_SHARD: 2
"""


def no_files(name: str) -> Document:
    """No service names a file."""
    raise AssertionError(f"{name} was asked for")


def read(text: str) -> ParsedCommand:
    return targets.read(text, no_files, "compose.yaml")


def test_the_service_that_starts_an_engine_is_read() -> None:
    served = read(SERVICE).served
    assert (served.engine, served.model, served.layout) == ("vllm", "org/m", Layout(tp=2))
    assert (served.replicas, served.max_context) == (3, 4096)


def test_a_command_may_be_a_list_and_have_an_entry_point() -> None:
    listed = SERVICE.replace(
        "command: --model org/m --tensor-parallel-size 2 --max-model-len ${LENGTH:-4096}",
        'entrypoint: ["vllm", "serve"]\n    command: ["org/m", "-tp", "2"]',
    )
    served = read(listed).served
    assert (served.model, served.layout) == ("org/m", Layout(tp=2))


@pytest.mark.parametrize(
    "environment",
    [
        "environment:\n      MODEL_ID: org/m\n      NUM_SHARD: 2",
        "environment:\n      - MODEL_ID=org/m\n      - NUM_SHARD=2",
    ],
)
def test_variables_are_a_mapping_or_a_list(environment: str) -> None:
    text = TGI[: TGI.index("environment:")] + environment + "\n"
    served = read(text).served
    assert (served.engine, served.model, served.layout) == ("tgi", "org/m", Layout(tp=2))


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        ("count: 2", "count: 4", "4 devices, but", "compose.yaml:13"),
        ("${LENGTH:-4096}", "${LENGTH}", "is a variable", "compose.yaml:6"),
        ("vllm/vllm-openai:v0.33.0", "nginx:1.29", "no service", ""),
        ("--tensor-parallel-size 2", "--tensor-parallel-size two", "no whole number",
         "compose.yaml"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_where_it_is(old: str, new: str, message: str, place: str) -> None:
    with pytest.raises(RooflineError) as refused:
        read(SERVICE.replace(old, new))
    assert message in str(refused.value)
    assert place in refused.value.where
    assert refused.value.hint
