"""Published configs of networks with experts that have no row in models.csv under their name."""

from typing import Final

SAME_DECODER: Final = {
    "Qwen--Qwen3-235B-A22B-FP8": "Qwen/Qwen3-235B-A22B",
    "nvidia--Qwen3-235B-A22B-NVFP4": "Qwen/Qwen3-235B-A22B",
    "Qwen--Qwen3-VL-235B-A22B-Instruct": "Qwen/Qwen3-235B-A22B",
    "Qwen--Qwen3-Coder-480B-A35B-Instruct": "Qwen/Qwen3-Coder-480B-A35B",
    "nvidia--DeepSeek-V3.1-NVFP4": "deepseek-ai/DeepSeek-V3",
    "nvidia--DeepSeek-V3.2-NVFP4": "deepseek-ai/DeepSeek-V3.2",
    "moonshotai--Kimi-K2.5": "moonshotai/Kimi-K2-Instruct",
    "nvidia--Kimi-K2.5-NVFP4": "moonshotai/Kimi-K2-Instruct",
    "nvidia--Kimi-K2.6-NVFP4": "moonshotai/Kimi-K2-Instruct",
    "nvidia--Kimi-K2.7-Code-NVFP4": "moonshotai/Kimi-K2-Instruct",
    "MiniMaxAI--MiniMax-M2.7": "MiniMaxAI/MiniMax-M2.5",
    "nvidia--MiniMax-M2.5-NVFP4": "MiniMaxAI/MiniMax-M2.5",
    "nvidia--MiniMax-M2.7-NVFP4": "MiniMaxAI/MiniMax-M2.5",
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": "meta-llama/Llama-4-Scout-17B-16E",
}
"""File, and the row whose decoder it has."""

TOTALS: Final = {
    **dict.fromkeys(
        ("Qwen--Qwen3-30B-A3B", "Qwen--Qwen3-30B-A3B-FP8", "Qwen--Qwen3-VL-30B-A3B-Instruct"),
        30_532_122_624,
    ),
    "meta-llama--Llama-4-Maverick-17B-128E-Instruct": 400_711_848_960,
    **dict.fromkeys(
        (
            "zai-org--GLM-5",
            "zai-org--GLM-5-FP8",
            "zai-org--GLM-5.1",
            "zai-org--GLM-5.1-FP8",
            "nvidia--GLM-5-NVFP4",
            "nvidia--GLM-5.1-NVFP4",
        ),
        743_911_199_232,
    ),
    **dict.fromkeys(
        ("zai-org--GLM-5.2", "zai-org--GLM-5.2-FP8", "nvidia--GLM-5.2-NVFP4"), 743_377_000_704
    ),
    "google--gemma-4-26B-A4B": 25_233_141_760,
    "nvidia--Gemma-4-26B-A4B-NVFP4": 25_233_141_760,
    "nvidia--Gemma-4-31B-IT-NVFP4": 30_697_345_280,
    "XiaomiMiMo--MiMo-V2-Flash": 308_778_768_832,
    "MiniMaxAI--MiniMax-M3": 426_174_565_632,
    "stepfun-ai--Step-3.7-Flash": 195_844_496_640,
    "stepfun-ai--Step-3.7-Flash-FP8": 195_844_496_640,
}
"""File without a row, and the parameters of the decoder that transformers 5.23 builds from it."""
