"""Attention of prompts to keys and values that are made of latents, by FlashInfer."""

from roofline.bench.gpu.flashinfer_attention import expanded

PROBE = expanded("flashinfer-mla-prefill")
