"""The short convolution before a recurrent state, a token for each sequence, cold states."""

from roofline.bench.gpu.recurrent_states import convolution_step

PROBE = convolution_step("convolution-decode")
