"""A message from one GPU to another, by NCCL."""

from roofline.bench.gpu.library_probes import collective

PROBE = collective("send-recv", "send_recv", "direct", ranks=(2,))
