"""Lengths and objectives of the language benchmarks of MLPerf Inference, datacenter.

Only means and limits of lengths are published, so that their shape is assumed: logarithms spread
normally, as in most traces, about a median below the mean.

Sources: MLCommons, tools/submission of mlcommons/inference: tokens per sample of the reference
(TOKENS_PER_SAMPLE) and limits of TTFT and TPOT (LLM_LATENCY_LIMITS), which hold for 99 % of the
requests; mean prompts as MLCommons tells of each benchmark: mlcommons.org/2025/04/llm-inference-v5
(405B), /2025/09/deepseek-inference-5-1 (R1), /2025/09/small-llm-inference-5-1 (8B), recalled; that
of OpenOrca is stated nowhere at hand, and prompts are taken as long as the answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from roofline.serving.traffic.lengths import Lengths, Lognormal

SERVER: Final = "mlperf_server"
INTERACTIVE: Final = "mlperf_interactive"


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits that 99 % of the requests keep."""

    ttft_s: float
    tpot_s: float
    """Longest time to the first token, and mean time between the others. [s]"""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Requests of a benchmark."""

    name: str
    """Dataset."""
    prompt: Lengths
    output: Lengths
    """Lengths. [token]"""
    limits: Mapping[str, Limit]
    """By scenario."""


DATASETS: Final[Mapping[str, Dataset]] = {
    "llama-2-70b": Dataset(
        "OpenOrca",
        Lognormal.of_mean(215.0, 294.0, 1024),
        Lognormal.of_mean(215.0, 294.45, 1024),
        {SERVER: Limit(2.0, 0.2), INTERACTIVE: Limit(0.45, 0.04)},
    ),
    "llama-3.1-405b": Dataset(
        "LongBench, LongDataCollections, RULER and GovReport",
        Lognormal.of_mean(7500.0, 9400.0, 20_000),
        Lognormal.of_mean(500.0, 684.68, 2000),
        {SERVER: Limit(6.0, 0.175), INTERACTIVE: Limit(4.5, 0.08)},
    ),
    "llama-3.1-8b": Dataset(
        "CNN/DailyMail",
        Lognormal.of_mean(700.0, 778.0, 2540),
        Lognormal.of_mean(70.0, 73.0, 128),
        {SERVER: Limit(2.0, 0.1), INTERACTIVE: Limit(0.5, 0.03)},
    ),
    "deepseek-r1": Dataset(
        "AIME, MATH500, GPQA, MMLU-Pro and LiveCodeBench",
        Lognormal.of_mean(400.0, 800.0, 3136),
        Lognormal.of_mean(2600.0, 3886.2274, 20_000),
        {SERVER: Limit(2.0, 0.08)},
    ),
}
"""By network of the catalog."""
UNDESCRIBED: Final[Mapping[str, str]] = {
    "mixtral-8x7b-v0.1": "how long its prompts of OpenOrca, GSM8K and MBXP are is not published",
    "gpt-oss-120b": "how long its prompts and answers are is not published",
}
"""Benchmarks whose requests cannot be described, and why."""
DRAFTS: Final = frozenset({("deepseek-r1", INTERACTIVE)})
"""Benchmarks that may draft tokens, so that nobody knows which submissions did."""
