"""What a load comes to on average, before percentiles are made of it."""

from dataclasses import dataclass

from roofline.cost.work import Array


@dataclass(frozen=True, slots=True)
class Means:
    """Of shape (loads,) where nothing else is said."""

    rate: Array
    """Requests served. [1/s]"""
    utilisation: Array
    """Share of the time in which it works. [1]"""
    sequences: Array
    """That decode. [1]"""
    queue: Array
    """Between the front end and the first step. [s]"""
    own: Array
    """From the first step to the first token of a prompt that is alone, by its length, of shape
    (requests, loads). [s]"""
    waits: Array
    varying: Array
    """Time to the first token beyond that and the front end, and its variance. [s] [s²]"""
    decode: Array
    plain: Array
    """From the first token to the last; a step without prompts, as those who decode meet it. [s]"""
    within: Array
    between: Array
    """Variance of a step, from one to the next, and of its mean from time to time. [s²]"""
