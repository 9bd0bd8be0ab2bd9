"""Room that caches take of a device: reserved in one piece, in pages, and in pages that are shared.

Symbols: P tokens of a prompt, t of an answer so far, n answers to a prompt, g tokens of a page. A
slot is the room of one cached token.
"""

import numpy as np

from roofline.cost.branching import samples_held
from roofline.cost.work import Number


def power_of_two(tokens: Number) -> Number:
    """The next power of two, which a buddy allocator reserves. [token]

    Source: Kwon et al. 2023 (arXiv 2309.06180), section 6.1, Orca (Pow2): 25 tokens reserve 32.

    Args:
        tokens: At least 1. [token]

    Examples:
        >>> float(power_of_two(25)), float(power_of_two(32))
        (32.0, 32.0)
    """
    return 2.0 ** np.ceil(np.log2(tokens))


def paged_slots(tokens: Number, page: Number) -> Number:
    """Slots of the pages that hold so many tokens: ⌈S/g⌉·g. [token]

    Source: Kwon et al. 2023 (arXiv 2309.06180), section 4.3.

    Args:
        tokens: Of a sequence, S. [token]
        page: Tokens of a page. [token]

    Examples:
        >>> float(paged_slots(33, page=16))
        48.0
    """
    return np.ceil(tokens / page) * page


def shared_slots(samples: Number, prompt: Number, answer: Number, page: Number) -> Number:
    """Slots of some answers to a prompt whose whole pages they share. [token]

    ⌊P/g⌋·g once; then each its own, the rest of the prompt included: that page is shared until an
    answer writes to it, and copied then.

    Source: Kwon et al. 2023 (arXiv 2309.06180), section 4.4, parallel sampling.

    Args:
        samples: Answers n, at least 1. [1]
        prompt, answer: Tokens P of the prompt and t of each answer. [token]
        page: Tokens of a page. [token]

    Examples:
        >>> float(shared_slots(2, prompt=40, answer=10, page=16))  # 2 pages, and 2 each
        96.0
    """
    return samples_held(samples, prompt, answer, page=page)


def copied_pages(samples: Number, prompt: Number, page: Number) -> Number:
    """Pages that are copied on write: n − 1 where the prompt ends inside a page. [1]

    The answer that writes last has the page to itself. Source: Kwon et al. 2023 (arXiv 2309.06180),
    section 4.4.

    Args:
        samples: Answers n, at least 1. [1]
        prompt: Tokens P. [token]
        page: Tokens of a page. [token]

    Examples:
        >>> float(copied_pages(4, prompt=40, page=16)), float(copied_pages(4, prompt=32, page=16))
        (3.0, 0.0)
    """
    return np.where(prompt % page > 0, samples - 1.0, 0.0)[()]


def mean_paged_slots(first: Number, last: Number, page: Number) -> Number:
    """Mean of ⌈S/g⌉·g over the lengths S from first to last. [token]

    Of the lengths 1 … S, each full page q = ⌊S/g⌋ holds g, and S mod g more are in one further:
    g·q(q + 1)/2 + (S mod g)(q + 1) pages in all. Where every remainder of a length is as likely,
    (g − 1)/2 slots are empty. Source: counting.

    Args:
        first, last: Whole numbers, both included. [token]
        page: Tokens of a page. [token]

    Examples:
        >>> float(mean_paged_slots(1, 16, page=16)), float(mean_paged_slots(16, 17, page=16))
        (16.0, 24.0)
    """

    def up_to(tokens: Number) -> Number:
        full = np.floor(tokens / page)
        return page * full * (full + 1.0) / 2.0 + (tokens - full * page) * (full + 1.0)

    return page * (up_to(last) - up_to(first - 1.0)) / (last - first + 1.0)
