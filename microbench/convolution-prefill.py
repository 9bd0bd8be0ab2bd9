"""The short convolution before a recurrent state, over prompts."""

from roofline.bench.gpu.recurrent_states import convolution

PROBE = convolution("convolution-prefill")
