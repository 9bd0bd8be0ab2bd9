"""Attention of new tokens over a paged cache in 8-bit floats (e4m3), widened as it is read."""

from roofline.bench.gpu.paged import paged_decode

PROBE = paged_decode("paged-decode-fp8", "fp8")
