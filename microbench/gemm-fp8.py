"""Linear layer in 8-bit floats (e4m3), without scales, by cuBLASLt; weights from memory."""

from roofline.bench.gpu.linear import linear

PROBE = linear("gemm-fp8", "fp8")
