"""What a load comes to on average, before percentiles are made of it."""

from dataclasses import dataclass

from roofline.cost.work import Array


@dataclass(frozen=True, slots=True)
class Means:
    """Of shape (loads,) where nothing else is said.

    Attributes
    ----------
    rate
        Requests served. [1/s]
    utilisation
        Share of the time in which it works. [1]
    sequences
        That decode. [1]
    queue
        Between the front end and the first step. [s]
    own
        From the first step to the first token of a prompt that is alone, by its length, of shape
        (requests, loads). [s]
    waits, varying
        Time to the first token beyond that and the front end, and its variance. [s] [s²]
    decode, plain
        From the first token to the last; a step without prompts, as those who decode meet it. [s]
    within, between
        Variance of a step, from one to the next, and of its mean from time to time. [s²]
    """

    rate: Array
    utilisation: Array
    sequences: Array
    queue: Array
    own: Array
    waits: Array
    varying: Array
    decode: Array
    plain: Array
    within: Array
    between: Array
