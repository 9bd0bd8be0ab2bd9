"""Work of choosing the next token: passes over the logits of a vocabulary of V.

Logits are taken in single precision, as engines convert them. Nothing here is matrix arithmetic: a
comparison, multiplication, addition or exponential of one element counts as one FLOP of the vector
units (an exponential takes several instructions). A step of `roofline.cost.step` leaves it out.
"""

from collections.abc import Mapping
from typing import Final

from roofline.cost.work import Number, Work

SINGLE: Final = 4.0
"""Bytes of a logit or probability in single precision."""
INDEX: Final = 8.0
"""Bytes of the place of a token that is sorted with its logit."""
RADIX_PASSES: Final = 4.0
"""Passes of a radix sort over keys of 32 bits, 8 bits at a time."""

PASSES: Final[Mapping[str, tuple[float, float]]] = {
    # Greedy choice: the largest of all, read once; the few bytes that come out are left out.
    # Source: definition of a maximum.
    "argmax": (1.0, SINGLE),
    # Every logit over the temperature, in place. Source: Ackley, Hinton and Sejnowski 1985,
    # p ∝ e^(z/τ).
    "temperature": (1.0, 2 * SINGLE),
    # Largest and sum of exponentials in one pass, the quotient in a second: 2 reads and 1 write; a
    # comparison, a subtraction, an exponential, a rescaling and an addition each in the first,
    # three operations in the second. Source: Milakov and Gimelshein 2018 (arXiv 1805.02867).
    "softmax": (8.0, 3 * SINGLE),
    # Logits in order, each with its token: what top-k and top-p look at in most engines. Each pass
    # reads and writes keys and places; counting the digits reads the keys once more. Source:
    # Merrill and Grimshaw 2011, radix sort on GPUs.
    "sort": (2 * RADIX_PASSES, RADIX_PASSES * (2 * (SINGLE + INDEX) + SINGLE)),
    # What is below the k-th logit of a sorted row is masked, in place. Source: Fan, Lewis and
    # Dauphin 2018 (arXiv 1805.04833), top-k sampling.
    "top-k": (1.0, 2 * SINGLE),
    # A running sum (read, write), a mask of the logits by it (2 reads, write), and a scatter to
    # the tokens' places (read with places, write). Source: Holtzman et al. 2019 (arXiv 1904.09751).
    "top-p": (2.0, 7 * SINGLE + INDEX),
    # A token by its probability, the largest of p/e with e drawn from an exponential: noise is
    # written, read with the probabilities, the quotient written and read for its largest. Source:
    # the exponential race, Yellott 1977; engines draw so to avoid a wait for the host.
    "draw": (4.0, 5 * SINGLE),
    # A token of top-k and top-p without sorting, one round: probabilities are summed up to the
    # draw, which is checked against k and p in one pass: V is read twice. Source: FlashInfer 2025
    # (arXiv 2501.01005), sampling without sorting.
    "draw-and-check": (4.0, 2 * SINGLE),
}
"""FLOPs, and bytes read and written, for each logit of a pass."""


def over_logits(rows: Number, vocab: Number, name: str, *, times: Number = 1.0) -> Work:
    """One of the `PASSES` over the logits of a step.

    Source: beside each of them.

    Args:
        rows, vocab: Sequences; vocabulary. [token]
        name: Which pass.
        times: How often: draws until one is kept, of the slowest sequence. [1]

    Examples:
        >>> over_logits(1.0, 1000.0, "softmax").hbm_bytes
        12000.0
        >>> over_logits(1.0, 1000.0, "sort").hbm_bytes  # 4 · (2 · 12 + 4) · 1000
        112000.0
    """
    flops, moved = PASSES[name]
    elements = rows * vocab
    return Work(flops=elements * flops * times, activation_bytes=elements * moved * times)


def converted(rows: Number, vocab: Number, *, width: Number) -> Work:
    """Logits as the LM head writes them, in single precision.

    Source: every operand crosses memory once.

    Args:
        rows: Sequences. [1]
        vocab: Vocabulary V. [token]
        width: Bytes per logit before. [B]

    Examples:
        >>> converted(1.0, 1000.0, width=2).hbm_bytes
        6000.0
    """
    return Work(activation_bytes=rows * vocab * (width + SINGLE))
