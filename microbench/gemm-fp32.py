"""Linear layer in single precision, by cuBLASLt: activations in the cache, weights from memory."""

from roofline.bench.gpu.linear import linear

PROBE = linear("gemm-fp32", "fp32")
