"""Linear layer in bfloat16, by cuBLASLt: activations in the cache, weights from memory."""

from roofline.bench.gpu.library_probes import linear

PROBE = linear("gemm-bf16", "bf16")
