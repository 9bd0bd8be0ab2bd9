"""Queries into the latent space, head by head, in fp8 by cuBLASLt."""

from roofline.bench.gpu.latent_products import LATENT, PLAIN, absorbed

PROBE = absorbed("q-absorb-fp8", "fp8", inner=PLAIN, outer=LATENT)
