"""Rows that wait for a part of the cost model that is not there yet. This list only shrinks."""

from collections.abc import Mapping
from typing import Final, Literal

PENDING: Final[Mapping[str, Literal["all"] | tuple[str, ...]]] = {
    "collectives": "all",
    "disaggregation": "all",
    "expert_parallel": "all",
    "fragmentation": "all",
    "moe": "all",
    "parallelism": "all",
    "pipeline": "all",
    "scheduling": "all",
    "speculative": "all",
    # Checkpoints of mixed formats, and formats below four bits.
    "quantization": ("awq", "gptoss-ckpt"),
    # Latent attention, shared caches, mixtures of experts and state-space layers.
    "kv_cache": (
        "ds-v2-mla",
        "ds-v2l-mla",
        "ds-v2-groups",
        "ds-v2-933",
        "ds-v3-kv",
        "ds-q72-x",
        "ds-l405-x",
        "cla-mqa-cla2",
        "model-mixtral-8x7b-v0.1-kv",
        "model-deepseek-v3-kv",
        "model-gpt-oss-120b-kv",
        "model-jamba-v0.1-kv",
    ),
    "param_count": (
        "model-mixtral-8x7b-v0.1-params",
        "model-mixtral-8x7b-v0.1-active",
        "model-deepseek-v3-params",
        "model-deepseek-v3-active",
        "model-gpt-oss-120b-params",
        "model-gpt-oss-120b-active",
        "model-jamba-v0.1-params",
        "model-jamba-v0.1-active",
    ),
}
"""Topic to ids; ``"all"`` is every row of it that can be derived."""
