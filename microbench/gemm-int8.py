"""Linear layer in 8-bit integers, by cuBLASLt: activations in the cache, weights from memory."""

from roofline.bench.gpu.linear import linear

PROBE = linear("gemm-int8", "int8")
