"""Work of choosing the next token: passes over the logits of a vocabulary of V.

Logits are taken in single precision, as engines convert them. Nothing here is matrix arithmetic: a
comparison, multiplication, addition or exponential of one element counts as one FLOP of the vector
units (an exponential takes several instructions). A step of `roofline.cost.step` leaves it out.
"""

from typing import Final

from roofline.cost.work import Number, Work

SINGLE: Final = 4.0
"""Bytes of a logit or probability in single precision."""
INDEX: Final = 8.0
"""Bytes of the place of a token that is sorted with its logit."""
RADIX_PASSES: Final = 4.0
"""Passes of a radix sort over keys of 32 bits, 8 bits at a time."""


def converted(rows: Number, vocab: Number, *, width: Number) -> Work:
    """Logits as the LM head writes them, in single precision.

    Source: every operand crosses memory once.

    Parameters
    ----------
    rows
        Sequences. [1]
    vocab
        Vocabulary V. [token]
    width
        Bytes per logit before. [B]

    Examples
    --------
    >>> converted(1.0, 1000.0, width=2).hbm_bytes
    6000.0
    """
    return Work(activation_bytes=rows * vocab * (width + SINGLE))


def argmax(rows: Number, vocab: Number) -> Work:
    """Greedy choice: the largest of all, read once.

    V comparisons. Source: definition of a maximum; the few bytes that come out are left out.

    Parameters
    ----------
    rows, vocab
        Sequences; vocabulary. [token]

    Examples
    --------
    >>> argmax(2.0, 1000.0).hbm_bytes
    8000.0
    """
    return Work(flops=rows * vocab, activation_bytes=rows * vocab * SINGLE)


def scaled_by_temperature(rows: Number, vocab: Number) -> Work:
    """Every logit over the temperature, in place.

    V multiplications, read and written once. Source: Ackley, Hinton and Sejnowski 1985,
    p ∝ e^(z/τ).

    Parameters
    ----------
    rows, vocab
        Sequences; vocabulary. [token]

    Examples
    --------
    >>> scaled_by_temperature(1.0, 1000.0).hbm_bytes
    8000.0
    """
    return Work(flops=rows * vocab, activation_bytes=rows * vocab * 2 * SINGLE)


def softmax(rows: Number, vocab: Number) -> Work:
    """Probabilities of the logits.

    Largest and sum of exponentials in one pass, the quotient in a second: 2 reads and 1 write of V;
    a comparison, a subtraction, an exponential, a rescaling and an addition each in the first,
    three operations in the second. Source: Milakov and Gimelshein 2018 (arXiv 1805.02867).

    Parameters
    ----------
    rows, vocab
        Sequences; vocabulary. [token]

    Examples
    --------
    >>> softmax(1.0, 1000.0).hbm_bytes
    12000.0
    """
    return Work(flops=rows * vocab * 8, activation_bytes=rows * vocab * 3 * SINGLE)


def sort(rows: Number, vocab: Number) -> Work:
    """Logits in order, each with its token: what top-k and top-p look at in most engines.

    Four passes of 8 bits, each of which reads and writes keys of 4 and places of 8 bytes. Source:
    Merrill and Grimshaw 2011, radix sort on GPUs; counting the digits reads the keys once more.

    Parameters
    ----------
    rows, vocab
        Sequences; vocabulary. [token]

    Examples
    --------
    >>> sort(1.0, 1000.0).hbm_bytes  # 4 · (2 · 12 + 4) · 1000
    112000.0
    """
    moved = RADIX_PASSES * (2 * (SINGLE + INDEX) + SINGLE)
    return Work(flops=rows * vocab * 2 * RADIX_PASSES, activation_bytes=rows * vocab * moved)


def cut_by_rank(rows: Number, vocab: Number) -> Work:
    """Top-k: what is below the k-th logit of a sorted row is masked, in place.

    Source: Fan, Lewis and Dauphin 2018 (arXiv 1805.04833), top-k sampling; V comparisons.

    Parameters
    ----------
    rows, vocab
        Sequences; vocabulary. [token]

    Examples
    --------
    >>> cut_by_rank(1.0, 1000.0).hbm_bytes
    8000.0
    """
    return Work(flops=rows * vocab, activation_bytes=rows * vocab * 2 * SINGLE)


def cut_by_sum(rows: Number, vocab: Number) -> Work:
    """Top-p: probabilities of a sorted row summed up, what is beyond p masked, and put back.

    A running sum (read, write), a mask of the logits by it (2 reads, write), and a scatter to the
    tokens' places (read with places, write). Source: Holtzman et al. 2019 (arXiv 1904.09751).

    Parameters
    ----------
    rows, vocab
        Sequences; vocabulary. [token]

    Examples
    --------
    >>> cut_by_sum(1.0, 1000.0).hbm_bytes
    36000.0
    """
    return Work(flops=rows * vocab * 2, activation_bytes=rows * vocab * (7 * SINGLE + INDEX))


def drawn(rows: Number, vocab: Number) -> Work:
    """A token by its probability: the largest of p/e with e drawn from an exponential.

    Noise is written, read with the probabilities, the quotient written and read for its largest.
    Source: the exponential race, Yellott 1977; engines draw so to avoid a wait for the host.

    Parameters
    ----------
    rows, vocab
        Sequences; vocabulary. [token]

    Examples
    --------
    >>> drawn(1.0, 1000.0).hbm_bytes
    20000.0
    """
    return Work(flops=rows * vocab * 4, activation_bytes=rows * vocab * 5 * SINGLE)


def drawn_by_rejection(rows: Number, vocab: Number, *, rounds: Number) -> Work:
    """A token of top-k and top-p without sorting: drawn, and drawn again where it is cut off.

    Each round sums probabilities up to the draw and checks it against k and p in one pass: V is
    read twice. Source: FlashInfer 2025 (arXiv 2501.01005), sampling without sorting.

    Parameters
    ----------
    rows, vocab
        Sequences; vocabulary. [token]
    rounds
        Draws until one is kept, of the slowest sequence. [1]

    Examples
    --------
    >>> drawn_by_rejection(1.0, 1000.0, rounds=2).hbm_bytes
    16000.0
    """
    return Work(
        flops=rows * vocab * 4 * rounds, activation_bytes=rows * vocab * 2 * SINGLE * rounds
    )
