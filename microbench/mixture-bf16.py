"""A mixture of experts in bf16 by PyTorch, tokens to sums, of even loads and of others."""

from roofline.bench.gpu.torch_experts import experts

PROBE = experts("mixture-bf16")
