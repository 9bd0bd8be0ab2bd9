"""Causal attention by FlashAttention 3, where its package is installed."""

from roofline.bench.gpu.torch_attention import flash_attention

PROBE = flash_attention("flash-attn-3")
