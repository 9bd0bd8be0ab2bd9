"""Attention of one new token per sequence over a paged cache by FlashInfer."""

from roofline.bench.gpu.flashinfer_attention import decode

PROBE = decode("flashinfer-decode")
