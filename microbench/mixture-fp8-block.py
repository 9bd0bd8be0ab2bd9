"""A mixture of experts in e4m3 by DeepGEMM, scales of blocks, of even loads and of others."""

from roofline.bench.gpu.narrow_experts import experts

PROBE = experts("mixture-fp8-block", blocks=True)
