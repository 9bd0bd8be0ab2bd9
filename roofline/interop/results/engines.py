"""Engines by the names that clients give their endpoints."""

from collections.abc import Mapping
from typing import Final

ENGINES: Final[Mapping[str, str]] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trt": "trtllm",
    "trtllm": "trtllm",
    "tensorrt": "trtllm",
    "tensorrt-llm": "trtllm",
    "tensorrtllm": "trtllm",
    "lmdeploy": "lmdeploy-turbomind",
    "deepspeed-mii": "Deepspeed-MII",
    "llama.cpp": "llama.cpp",
    "tgi": "tgi",
    "pytorch": "hf-transformers",
}
"""By the first words of what a client calls it. An endpoint of OpenAI's kind says nothing."""
_ENDS: Final = ("-oai-chat", "-oai", "-native", "-chat", "-embedding", "-mtp")


def engine_of(name: str) -> str:
    """Engine of an endpoint; empty where its name says none.

    >>> engine_of("sglang-oai-chat"), engine_of("openai-chat"), engine_of("dynamo-trt")
    ('sglang', '', 'trtllm')
    """
    bare = name.strip().lower().replace("_", "-").removeprefix("dynamo-")
    for end in _ENDS:
        bare = bare.removesuffix(end)
    return ENGINES.get(bare, "")
