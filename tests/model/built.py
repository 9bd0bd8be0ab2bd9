"""Totals of published configs that have no row among the golden ones."""

from typing import Final

BUILT: Final = {
    "Qwen--Qwen3.5-122B-A10B": 122_111_526_912,
    "Qwen--Qwen3.5-27B": 26_895_998_464,
    "Qwen--Qwen3.5-35B-A3B": 34_660_610_688,
    "deepseek-ai--DeepSeek-V4-Flash": 284_332_230_231,
    "deepseek-ai--DeepSeek-V4-Pro": 1_572_997_179_491,
    "nvidia--DeepSeek-V4-Flash-NVFP4": 284_332_230_231,
    "nvidia--DeepSeek-V4-Pro-NVFP4": 1_572_997_179_491,
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 31_577_937_344,
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4": 31_577_937_344,
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8": 120_668_687_360,
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4": 120_668_687_360,
    "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": 549_308_968_960,
    "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8": 549_308_968_960,
    "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4": 549_308_968_960,
    "nvidia--NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": 31_577_937_344,
    "nvidia--Nemotron-H-56B-Base-8K": 56_324_350_464,
    "nvidia--Qwen3.5-122B-A10B-NVFP4": 122_111_526_912,
    "nvidia--Qwen3.5-397B-A17B-NVFP4": 396_346_350_336,
    "nvidia--Qwen3.6-27B-NVFP4": 26_895_998_464,
    "nvidia--Qwen3.6-35B-A3B-NVFP4": 34_660_610_688,
    "sgl-project--DeepSeek-V4-Flash-FP8": 284_332_230_231,
    "sgl-project--DeepSeek-V4-Pro-FP8": 1_572_997_179_491,
}
"""Text decoders built by transformers 5.23 from the published files, parameters summed."""

ADVERTISED: Final = {
    # Whole checkpoint, from its card.
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1": (49_867_145_216, 0.0),
    # "2.8T": the report rounds to two digits.
    "moonshotai--Kimi-K3": (2_800_000_000_000, 0.02),
}
"""Networks that transformers does not have: published total, and how far rounding may be off."""
