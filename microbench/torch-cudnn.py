"""Causal attention by cuDNN through PyTorch, where it is installed."""

from roofline.bench.gpu.torch_attention import sdpa

PROBE = sdpa("torch-cudnn", "CUDNN_ATTENTION")
