"""Results out of the latent space, head by head, in fp8 by cuBLASLt."""

from roofline.bench.gpu.latent_products import LATENT, PLAIN, absorbed

PROBE = absorbed("v-absorb-fp8", "fp8", inner=LATENT, outer=PLAIN)
