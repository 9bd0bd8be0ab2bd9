"""Linear layer in TensorFloat-32, by cuBLASLt: activations in the cache, weights from memory."""

from roofline.bench.gpu.linear import linear

PROBE = linear("gemm-tf32", "tf32")
