"""Linear layer in 8-bit integers by cuBLASLt, with the conversion of its input."""

from roofline.bench.gpu.library_probes import linear

PROBE = linear("gemm-int8", "int8")
