"""A mixture of experts in e4m3 by PyTorch, a scale for each row, of even loads and of others."""

from roofline.bench.gpu.narrow_experts import experts

PROBE = experts("mixture-fp8", blocks=False)
