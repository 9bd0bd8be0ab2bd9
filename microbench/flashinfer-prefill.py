"""Attention to prompts and chunks over a paged cache by FlashInfer."""

from roofline.bench.gpu.flashinfer_attention import prefill

PROBE = prefill("flashinfer-prefill")
