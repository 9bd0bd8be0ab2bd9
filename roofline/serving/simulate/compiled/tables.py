"""Tables of step prices as the compiled loop takes them; nothing here is compiled."""

from typing import NamedTuple

from roofline.cost.work import Array


class Prices(NamedTuple):
    """Tables of `StepPrices` with an engine's costs in them, a row or entry for every integer."""

    contexts: Array
    windows: Array
    """Points of the rows below. [token]"""
    alone: Array
    mixed: Array
    """By sequences that decode: a step that does nothing else; and the kernels that they add to
    one that prefills; both without layers that have a window. [s]"""
    seen: Array
    """By sequences that decode: layers with a window. [s]"""
    others: Array
    others_slope: float
    """By tokens of a step with prompts; beyond the last entry, for each token. [s]"""
    head: Array
    """By rows of logits. [s]"""
    chunks: Array
    cached: Array
    attention: Array
    """Attention of a chunk for each of its tokens. [token] [s]"""
    step_s: float
    sequence_s: float
    prefill_s: float
    launch_s: float
    """Of a step that prefills: added, for each sequence that decodes, added because it prefills,
    and the least time of its kernels. [s]"""
    token_s: float
    """Time of the front end for a token. [s]"""
    cold_s: float
    """Added to the first step that prefills. [s]"""
