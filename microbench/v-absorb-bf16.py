"""Results out of the latent space, head by head, in bf16 by cuBLASLt."""

from roofline.bench.gpu.library_probes import LATENT, PLAIN, absorbed

PROBE = absorbed("v-absorb-bf16", inner=LATENT, outer=PLAIN)
