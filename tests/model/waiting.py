"""Networks whose kinds of layer are not understood yet. This list can only get shorter."""

from typing import Final

WAITING: Final = frozenset(
    {
        "deepseek_ref",
        "deepseek_v3",
        "deepseek_v32",
        "deepseek_v4",
        "gemma4",
        "glm_moe_dsa",
        "gpt_oss",
        "jamba",
        "kimi_k2",
        "kimi_k25",
        "kimi_k3",
        "llama4",
        "llama4_text",
        "mamba",
        "mimo_v2_flash",
        "minimax",
        "minimax_m2",
        "minimax_m3",
        "mixtral",
        "nemotron-nas",
        "nemotron_h",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_5_moe_text",
        "qwen3_moe",
        "qwen3_vl_moe",
        "step3p7",
    }
)
"""Model types: mixtures of experts, latent and sparse attention, recurrent layers."""

WITH_INFINITY: Final = frozenset(
    {
        "nvidia--Nemotron-3-Nano-30B-A3B",
        "nvidia--Nemotron-H-8B",
        "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8_config",
        "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4_config",
        "nvidia--Nemotron-H-56B-Base-8K_config",
    }
)
"""Files that say Infinity, which JSON does not have; all of a model type that waits anyway."""
