"""Large products in bf16, one after the other until the power limit has its effect."""

from roofline.bench.gpu.library_probes import sustained

PROBE = sustained("gemm-bf16-sustained", "bf16")
