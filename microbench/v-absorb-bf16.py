"""Results out of the latent space, head by head, in bf16 by cuBLASLt."""

from roofline.bench.gpu.latent_products import LATENT, PLAIN, absorbed

PROBE = absorbed("v-absorb-bf16", "bf16", inner=LATENT, outer=PLAIN)
