"""Queries into the latent space, head by head, in bf16 by cuBLASLt."""

from roofline.bench.gpu.library_probes import LATENT, PLAIN, absorbed

PROBE = absorbed("q-absorb-bf16", inner=PLAIN, outer=LATENT)
