"""Attention of one new token per sequence over paged latents by FlashInfer."""

from roofline.bench.gpu.flashinfer_attention import latent

PROBE = latent("flashinfer-mla")
