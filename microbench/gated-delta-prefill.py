"""Prompts by the gated delta rule, chunk after chunk, by flash-linear-attention."""

from roofline.bench.gpu.recurrent_states import delta_scan

PROBE = delta_scan("gated-delta-prefill")
