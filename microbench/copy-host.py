"""Copies between pinned memory of the host and a GPU: what offloading is held against."""

from roofline.bench.gpu.host_copies import host_copies

PROBE = host_copies("copy-host")
