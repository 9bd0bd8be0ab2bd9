"""A tensor of which each GPU holds a part, given to all of them by NCCL."""

from roofline.bench.gpu.library_probes import collective

PROBE = collective("all-gather", "all_gather", "ring")
