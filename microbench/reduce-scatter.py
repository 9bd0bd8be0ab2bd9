"""Sum of a tensor over GPUs of which each keeps a part, by NCCL."""

from roofline.bench.gpu.library_probes import collective

PROBE = collective("reduce-scatter", "reduce_scatter", "ring")
