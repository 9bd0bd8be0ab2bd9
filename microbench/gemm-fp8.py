"""Linear layer in 8-bit floats (e4m3) by cuBLASLt, with the conversion of its input."""

from roofline.bench.gpu.library_probes import linear

PROBE = linear("gemm-fp8", "fp8")
