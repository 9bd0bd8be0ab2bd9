"""Linear layer in bfloat16, by cuBLASLt: activations in the cache, weights from memory."""

from roofline.bench.gpu.linear import linear

PROBE = linear("gemm-bf16", "bf16")
