"""One token for each sequence by the gated delta rule, by flash-linear-attention, cold states."""

from roofline.bench.gpu.recurrent_states import delta_step

PROBE = delta_step("gated-delta-decode")
