"""A tensor of which each GPU holds a part, given to all of them by NCCL."""

from roofline.bench.gpu.wires import collective

PROBE = collective("all-gather", "all_gather", "ring")
