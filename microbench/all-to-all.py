"""A part of each GPU's tensor to every other GPU, by sends and receipts of NCCL in one group."""

from roofline.bench.gpu.library_probes import collective

PROBE = collective("all-to-all", "all_to_all", "direct")
