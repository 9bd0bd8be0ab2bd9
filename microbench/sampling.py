"""Top-k and top-p sampling over logits by PyTorch, in single precision."""

from roofline.bench.gpu.torch_sampling import sampling

PROBE = sampling("sampling")
