"""Attention of one new token per sequence, or of a few drafted ones, over a paged cache in bf16."""

from roofline.bench.gpu.paged import paged_decode

PROBE = paged_decode("paged-decode", "bf16")
