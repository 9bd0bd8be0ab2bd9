"""Large products in fp8, one after the other until the power limit has its effect."""

from roofline.bench.gpu.library_probes import sustained

PROBE = sustained("gemm-fp8-sustained", "fp8")
