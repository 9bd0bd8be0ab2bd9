"""Linear layer in e4m3 by cuBLASLt with scales of blocks, and the conversion of its input."""

from roofline.bench.gpu.library_probes import block_scaled

PROBE = block_scaled("gemm-fp8-block")
