"""Grouped products of a mixture of experts in bf16 by PyTorch, of even loads and of others."""

from roofline.bench.gpu.torch_experts import experts

PROBE = experts("experts-bf16")
