"""Linear layer with 4-bit weights in groups of 128 by PyTorch, for one token and for many."""

from roofline.bench.gpu.torch_packed import packed

PROBE = packed("w4a16-torch")
