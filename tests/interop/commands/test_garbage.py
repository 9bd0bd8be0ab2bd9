"""Whatever is read is understood or refused: nothing else is raised."""

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.layout import Layout
from roofline.errors import RooflineError
from roofline.interop.commands import targets
from roofline.interop.commands.served import DraftSettings, ReplicaServer, ServerMemory
from roofline.schema import Document, parse_yaml
from tests.cases import examples
from tests.interop.commands.serving import SITE

SERVED = ReplicaServer(
    "vllm", "org/m", Layout(pp=2, stages=(30, 30)), kv="fp8", memory=ServerMemory(0.9),
    max_sequences=4, speculation=DraftSettings("mtp", 1),
)  # fmt: skip
junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10**18),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "-", "--", "-1", "a=b", "x,y", "{}", "1e999", "vllm", "serve", "$(A)"]),
    st.just([]),
    st.just({}),
    st.just([None, {"a": [1]}]),
)
FLAGS = (
    "-tp", "--tensor-parallel-size", "-dp", "--kv-cache-dtype", "--speculative-config", "-q",
    "--max-model-len", "--gpu-memory-utilization", "--cpu-offload-gb", "--spec-method", "--nnodes",
    "--no-enable-prefix-caching", "--enable-prefix-caching=maybe", "--tp", "--attn-dp-size", "--ep",
    "--mem-fraction-static", "--chunked-prefill-size", "--speculative-num-steps", "--config", "-c",
    "--tp_size", "--ep_size", "--max_batch_size", "-np", "-ngl", "-dev", "-ts", "-sm", "-b", "-hf",
)  # fmt: skip
VALUES = (
    "1", "0", "-1", "8", "3.5", "1e400", "nan", "k", "9k", "{", '{"method": 3}', '{"model": []}',
    "a,b", "1,,2", "", "=", "fp8", "999999999999999", "😀", "true",
)  # fmt: skip
PROGRAMS = (
    "vllm serve m", "sglang serve --model m", "trtllm-serve m", "llama-server -m m.gguf",
    "VLLM_PP_LAYER_PARTITION=a,b vllm serve m",
)  # fmt: skip


def files(name: str) -> Document:
    return parse_yaml("tensor_parallel_size: [1]\nspeculative_config: 3\n", name)


@settings(max_examples=examples(300), deadline=None)
@given(
    program=st.sampled_from(PROGRAMS),
    words=st.lists(st.sampled_from([*FLAGS, *VALUES]), max_size=8),
)
def test_a_command_is_understood_or_refused(program: str, words: list[str]) -> None:
    quoted = " ".join(json.dumps(word, ensure_ascii=False) for word in words)
    with suppress(RooflineError):
        targets.read(f"{program} {quoted}", files)


@settings(max_examples=examples(300), deadline=None)
@given(text=st.text(alphabet="vllm serve'\"\\$`#-=;\n\r\té", max_size=40))
def test_any_text_is_understood_or_refused(text: str) -> None:
    for program in ("", "vllm serve "):
        with suppress(RooflineError):
            targets.read(program + text, files)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all that is in a document."""
    inside: Any = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    return [path, *(p for key, each in inside for p in places(each, (*path, key)))]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["k8s", "ray-serve"])
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_a_manifest_is_understood_or_refused(target: str, data: st.DataObject) -> None:
    (text,) = targets.write(target, SERVED, SITE).files.values()
    documents = copy.deepcopy(list(yaml.safe_load_all(text)))
    *before, last = data.draw(st.sampled_from([p for p in places(documents) if p]))
    holder: Any = documents
    for step in before:
        holder = holder[step]
    holder[last] = data.draw(junk)
    with suppress(RooflineError):
        targets.read(yaml.safe_dump_all(documents), files)
