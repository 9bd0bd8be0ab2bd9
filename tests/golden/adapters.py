"""Every golden row that has a function of ours, and measured rows that have something beside."""

from collections.abc import Mapping
from typing import Final

from tests.golden import (
    adapters_intensity,
    adapters_latency,
    adapters_memory,
    adapters_networks,
    adapters_parallelism,
    adapters_precision,
    adapters_serving,
    adapters_training,
    engine,
)
from tests.golden.rows import Adapter, Entry, Quoted

ADAPTERS: Final[Mapping[str, Entry]] = {
    **adapters_intensity.INTENSITY,
    **adapters_intensity.ATTENTION_FLOPS,
    **adapters_intensity.ROOFLINE,
    **adapters_intensity.KERNELS,
    **adapters_intensity.HARDWARE,
    **adapters_intensity.KERNEL_STUDIES,
    **adapters_memory.MEMORY,
    **adapters_memory.KV_CACHE,
    **adapters_networks.LATENT_CACHE,
    **adapters_networks.SHARED_CACHE,
    **adapters_networks.EXPERTS,
    **adapters_precision.QUANTIZATION,
    **adapters_training.PARAMETERS,
    **adapters_training.TRAINING,
    **adapters_training.ACTIVATIONS,
    **adapters_latency.LLAMA2_13B,
    **adapters_latency.DECODE,
    **adapters_latency.PREFILL,
    **adapters_latency.UTILISATION,
    **adapters_latency.THROUGHPUT,
    **adapters_latency.MODELS,
    **adapters_parallelism.COLLECTIVES,
    **adapters_parallelism.PARALLELISM,
    **adapters_parallelism.PIPELINE,
    **adapters_parallelism.EXPERT_PARALLEL,
    **adapters_parallelism.DISAGGREGATION,
    **adapters_serving.SCHEDULING,
    **adapters_serving.SPECULATIVE,
}

FIGURE_2: Final = {
    "batch": Quoted("B"),
    "context": Quoted("N"),
    "heads": Quoted("heads"),
    "head_dim": Quoted("d"),
}
BESIDE: Final[Mapping[str, Adapter]] = {
    # Measured over forward and backward pass with dropout; ours is the forward pass.
    "fa1-hbm-std": Adapter(engine.naive_bytes, FIGURE_2),
    "fa1-hbm-fa": Adapter(engine.flash_bytes, FIGURE_2),
}
"""Measured rows: printed, never passed."""
