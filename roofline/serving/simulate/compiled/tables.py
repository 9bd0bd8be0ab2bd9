"""Tables of step prices as the compiled loop takes them; nothing here is compiled."""

from typing import NamedTuple

from roofline.cost.work import Array


class Prices(NamedTuple):
    """Tables of `StepPrices` with an engine's costs in them, a row or entry for every integer.

    Attributes
    ----------
    contexts, windows
        Points of the rows below. [token]
    alone, mixed
        By sequences that decode: a step that does nothing else; and the kernels that they add to
        one that prefills; both without layers that have a window. [s]
    seen
        By sequences that decode: layers with a window. [s]
    others, others_slope
        By tokens of a step with prompts; beyond the last entry, for each token. [s]
    head
        By rows of logits. [s]
    chunks, cached, attention
        Attention of a chunk for each of its tokens. [token] [s]
    step_s, sequence_s, prefill_s, launch_s
        Of a step that prefills: added, for each sequence that decodes, added because it prefills,
        and the least time of its kernels. [s]
    token_s
        Time of the front end for a token. [s]
    cold_s
        Added to the first step that prefills. [s]
    """

    contexts: Array
    windows: Array
    alone: Array
    mixed: Array
    seen: Array
    others: Array
    others_slope: float
    head: Array
    chunks: Array
    cached: Array
    attention: Array
    step_s: float
    sequence_s: float
    prefill_s: float
    launch_s: float
    token_s: float
    cold_s: float
