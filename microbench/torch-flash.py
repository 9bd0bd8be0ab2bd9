"""Causal attention by the FlashAttention that PyTorch brings, where it is installed."""

from roofline.bench.gpu.torch_attention import sdpa

PROBE = sdpa("torch-flash", "FLASH_ATTENTION")
