"""Choice of the next token; several answers to one prompt: samples and beams.

Logits are taken in single precision, as engines convert them. A few vector FLOP per element are
left out. Engines choose on the device: the host sees tokens, not logits. Samples go their own ways
at once; beams keep what they have in common.

Symbols: V tokens of the vocabulary, P of the prompt, t of each answer, n samples, k beams, g tokens
of a page, b bytes of a cached token in all layers.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array, Formula, Number, Work, by
from roofline.errors import InputError
from roofline.hardware.serving_engine import Sampler

MOST_BEAMS = 128


def samples_held(samples: Number, prompt: Number, output: Number, *, page: Number = 0.0) -> Number:
    """Tokens cached for the answers to a prompt. [token]

    Of its own, n·(P + t). In pages, the whole ones of the prompt once, ⌊P/g⌋·g, and for each answer
    the rest of the prompt, which is copied when it is first written to, and its own tokens, rounded
    up to pages. Source: Kwon et al. 2023 (arXiv 2309.06180), section 4.4, parallel sampling.

    Args:
        samples: Answers n. [1]
        prompt, output: Tokens P of the prompt and t of each answer. [token]
        page: Tokens of a page whose whole pages are shared; 0 for a cache of its own for each.
            [token]

    Examples:
        >>> samples_held(4, 1000, 100), float(samples_held(4, 1000, 100, page=16))
        (4400, 1440.0)
    """
    if not np.any(page):
        return samples * (prompt + output)
    whole = np.floor(prompt / page) * page
    return whole + samples * (np.ceil((prompt - whole + output) / page) * page)


def beam_copies(sequences: Number, beams: Number, context: Number, *, token_bytes: Number) -> Work:
    """Reordering of caches that lie one beam after the other: all are copied.

    2·k·S·b for each prompt: every beam's cache is read from its parent's and written to its own
    place, in every step. Source: index_select over the past keys and values, as in the
    `_reorder_cache` of Hugging Face Transformers.

    Args:
        sequences: Prompts. [1]
        beams: Beams k of each. [1]
        context: Tokens cached of each beam. [token]
        token_bytes: Bytes b of a cached token, all layers. [B]

    Examples:
        >>> beam_copies(1.0, 4.0, 100.0, token_bytes=10.0).kv_bytes
        8000.0
    """
    return Work(kv_bytes=2 * sequences * beams * context * token_bytes)


def beam_page_copies(
    sequences: Number,
    beams: Number,
    parents: Number,
    *,
    page: Number,
    token_bytes: Number,
    state_bytes: Number = 0.0,
) -> Work:
    """Reordering of caches in pages: a page is copied where two beams would write to it.

    2·(k − parents)·g·b, of g steps in the g − 1 in which the last page is not full, whatever the
    context; a recurrent state, which every step writes to, in each of them. Source: Kwon et al.
    2023 (arXiv 2309.06180), section 4.4, copy on write.

    Args:
        sequences, beams, token_bytes: As in `beam_copies`.
        parents: Beams that live on; see `expected_parents`. [1]
        page: Tokens g of a page. [token]
        state_bytes: Bytes of a sequence whatever its length. [B]

    Examples:
        >>> beam_page_copies(1.0, 4.0, 3.0, page=16.0, token_bytes=10.0).kv_bytes
        300.0
    """
    each = (page - 1) * token_bytes + state_bytes
    symbols = {
        "prompts": sequences,
        "k": beams,
        "parents": parents,
        "g": page,
        "b": token_bytes,
        "state bytes": state_bytes,
    }
    return Work(kv_bytes=2 * sequences * (beams - parents) * each, made=by(_PAGE_COPIES, symbols))


_PAGE_COPIES: Final = Formula(
    kv_bytes="2 · prompts · (k − parents) · ((g − 1) · b[ + state bytes])",
    meanings=(
        ("k", "beams of each prompt"),
        ("parents", "k · (1 − (1 − 1/k)^k): each new beam comes from any of the old ones alike"),
        ("g", "tokens of a page of the engine"),
        ("b", "cache of a token in all layers, on this device"),
    ),
)


def expected_parents(beams: Number) -> Number:
    """Beams that live on where each new one comes from any of the old ones equally often. [1]

    k·(1 − (1 − 1/k)^k). Real beams descend from fewer: the best ones have more children. Source:
    expected number of occupied boxes, Feller 1950, chapter II.

    Args:
        beams: Beams k. [1]

    Examples:
        >>> expected_parents(1.0), expected_parents(2.0)
        (1.0, 1.5)
    """
    return beams * (1 - (1 - 1 / beams) ** beams)


def beams_held(beams: int, prompt: int, output: Number, *, page: int = 1) -> Number:
    """Tokens cached for the beams of a prompt that keep what they have in common once. [token]

    Pages of the prompt once, and for each later one as many as the beams have ancestors at its last
    token, where each beam comes from any of the k before it equally often: k at first, soon one.
    The chain is exact. Real beams descend from fewer, so that they tend to hold less; without
    sharing it is k·(P + t). Source: Kingman 1982, The coalescent, for the chain; Kwon et al. 2023
    (arXiv 2309.06180), section 4.4, for sharing in beam search.

    Args:
        beams: Beams k. [1]
        prompt, output: Tokens P of the prompt and t of each answer so far. [token]
        page: Tokens of a page, which is kept once where all of it is common. [token]

    Examples:
        Two beams have one ancestor with probability 1/2 a step back, 3/4 two steps back:

        >>> float(beams_held(2, 100, 3))
        104.75
    """
    answers = np.asarray(output, np.intp)
    if not (1 <= beams <= MOST_BEAMS and prompt >= 0 and answers.min() >= 0 and page >= 1):
        raise InputError(
            f"{beams} beams of {prompt} + {answers.max()} tokens in pages of {page}",
            hint=f"give 1 to {MOST_BEAMS} beams, 0 tokens on, and pages of 1 or more",
        )
    alive, most = _ancestors(beams), int(answers.max()) + page
    alive = np.append(alive[:most], np.ones(-(-most // page) * page - len(alive[:most])))
    # Ancestors at the ends of full pages, which lie a page apart: from so many steps back on.
    ends = np.cumsum(alive.reshape(-1, page), axis=0)
    full, rest = np.divmod(prompt + answers, page)
    own = full - prompt // page
    last = np.where(answers > 0, float(beams), 1.0) * (rest > 0)
    held = page * (prompt // page + last + np.where(own > 0, ends[np.maximum(own - 1, 0), rest], 0))
    return held[()]


def own_tokens(samples: int, beams: int, prompt: int, output: Number, *, page: int = 1) -> Number:
    """Tokens cached for each further answer or beam of a prompt, beside those of the first. [token]

    (held − ⌈(P + t)/g⌉·g)/(n − 1), in pages, of n samples or beams; 0 for one alone. Source: the
    difference of `samples_held` or `beams_held`, and one sequence in pages.

    Args:
        samples: Answers n, that go apart at once. [1]
        beams: Beams k, of a single answer. [1]
        prompt, output, page: As in `beams_held`.

    Examples:
        Whole pages of a prompt of 40 are shared, 8 tokens are not:

        >>> float(own_tokens(4, 1, 40, 10, page=16))
        32.0
    """
    if samples == 1 == beams:
        return 0.0
    held = (
        beams_held(beams, prompt, output, page=page)
        if beams > 1
        else samples_held(samples, prompt, output, page=page)
    )
    one = np.ceil((prompt + output) / page) * page
    return (held - one) / (max(samples, beams) - 1)


@cache
def _ancestors(beams: int) -> Array:
    """Mean number of ancestors of all beams so many steps back, until it is one. [1]"""
    step, lines = _occupied(beams), np.zeros(beams + 1)
    lines[beams] = 1.0
    out = []
    while lines[2:].sum() > 1e-13:
        out.append(lines @ np.arange(beams + 1.0))
        lines = lines @ step
    return np.array(out)


@cache
def _occupied(boxes: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Probability that a balls, thrown into so many boxes, fill d of them: row a, column d."""
    table = np.zeros((boxes + 1, boxes + 1))
    table[0, 0] = 1.0
    filled = np.arange(boxes + 1)
    for balls in range(boxes):
        again = table[balls] * filled / boxes
        new = np.zeros(boxes + 1)
        new[1:] = table[balls, :-1] * (boxes - filled[:-1]) / boxes
        table[balls + 1] = again + new
    return table


SINGLE: Final = 4.0
"""Bytes of a logit or probability in single precision."""
INDEX: Final = 8.0
"""Bytes of the place of a token that is sorted with its logit."""
RADIX_PASSES: Final = 4.0
"""Passes of a radix sort over keys of 32 bits, 8 bits at a time."""
ROUNDS: Final = 2.0
"""Draws of the slowest sequence until one is kept; assumed. [1]"""

PASSES: Final[Mapping[str, float]] = {
    # Logits as the LM head writes them, of 16 bits, are read and written. Source: every operand
    # crosses memory once.
    "convert": 2.0 + SINGLE,
    # Greedy choice: the largest of all, read once; the few bytes that come out are left out.
    # Source: definition of a maximum.
    "argmax": SINGLE,
    # Every logit over the temperature, in place. Source: Ackley, Hinton and Sejnowski 1985,
    # p ∝ e^(z/τ).
    "temperature": 2 * SINGLE,
    # Largest and sum of exponentials in one pass, the quotient in a second: 2 reads and 1 write.
    # Source: Milakov and Gimelshein 2018 (arXiv 1805.02867).
    "softmax": 3 * SINGLE,
    # Logits in order, each with its token. Each pass reads and writes keys and places; counting
    # the digits reads the keys once more. Source: Merrill and Grimshaw 2011, radix sort on GPUs.
    "sort": RADIX_PASSES * (2 * (SINGLE + INDEX) + SINGLE),
    # What is below the k-th logit of a sorted row is masked, in place. Source: Fan, Lewis and
    # Dauphin 2018 (arXiv 1805.04833), top-k sampling.
    "top-k": 2 * SINGLE,
    # Probabilities of the sorted row (as softmax), a running sum (read, write), a mask of the
    # logits by it (2 reads, write), and a scatter to the tokens' places (read with places, write).
    # Source: Holtzman et al. 2019 (arXiv 1904.09751).
    "top-p": 10 * SINGLE + INDEX,
    # A token by its probability, the largest of p/e with e drawn from an exponential: noise is
    # written, read with the probabilities, the quotient written; its largest is the argmax.
    # Source: the exponential race, Yellott 1977; engines draw so to avoid a wait for the host.
    "race": 4 * SINGLE,
    # A token of top-k and top-p without sorting, `ROUNDS` times: probabilities are summed up to the
    # draw, which is checked against k and p in one pass: V is read twice. Source: FlashInfer 2025
    # (arXiv 2501.01005), sampling without sorting.
    "rejection": ROUNDS * 2 * SINGLE,
    # Beam search: logarithms of probabilities (2 reads, a write), a sum with the beam's score
    # (read, write), and the best 2k of all beams of a prompt (read), so that k are left where some
    # end. Source: Sutskever, Vinyals and Le 2014 (arXiv 1409.3215).
    "beams": 6 * SINGLE,
}
"""Bytes that a pass reads and writes for each logit. [B]"""
GREEDY: Final = ("convert", "argmax")
"""Passes of the greedy choice, which benchmarks ask for that engines' constants are fitted to: they
are in the time of the engine. Source: ``temperature: 0.0`` in InferenceX,
utils/bench_serving/backend_request_func.py."""
_FORMULAS: Final = {
    name: Formula(activation_bytes=f"{moved:g} · rows · V") for name, moved in PASSES.items()
}


class Sampling(Struct, frozen=True):
    """Settings of how the next token is chosen."""

    temperature: float | None = None
    """0 takes the likeliest token; None leaves it to top-k and top-p, greedy without them. [1]"""
    top_k: int = 0
    """Only the k likeliest; 0 for all. [token]"""
    top_p: float = 1.0
    """Only the likeliest that together have this probability; 1 for all. [1]"""
    beams: int = 1
    """Beams of each prompt that are searched together; 1 for no search. [1]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if self.temperature is not None and not 0 <= self.temperature < 1000:
            raise InputError(
                f"temperature is {self.temperature:g}", hint="give 0 for greedy, or more"
            )
        if self.top_k < 0 or not 0 < self.top_p <= 1:
            raise InputError(
                f"top-k is {self.top_k}, top-p is {self.top_p:g}",
                hint="give k of 0 (all) or more, and p above 0 and up to 1 (all)",
            )
        if not 1 <= self.beams <= MOST_BEAMS:
            raise InputError(f"{self.beams} beams", hint=f"give a number from 1 to {MOST_BEAMS}")
        if self.temperature == 0 and self.cuts:
            raise InputError(
                "greedy choice with top-k or top-p",
                hint="they change nothing: leave them out, or give a temperature",
            )
        if self.beams > 1 and (self.temperature or self.cuts):
            raise InputError(
                "beam search with sampling",
                hint="beams are the likeliest answers: leave temperature, top-k and top-p out",
            )

    @property
    def cuts(self) -> bool:
        """True where some tokens are never drawn."""
        return self.top_k > 0 or self.top_p < 1

    def passes(self, sampler: Sampler) -> Iterator[str]:
        """`PASSES` over the logits of a step, in order.

        Examples:
            >>> list(Sampling().passes("sort"))
            ['convert', 'argmax']
            >>> list(Sampling(0.7, top_p=0.9).passes("sort"))
            ['convert', 'temperature', 'sort', 'top-p', 'softmax', 'race', 'argmax']
            >>> list(Sampling(top_k=40).passes("rejection"))
            ['convert', 'softmax', 'rejection']
        """
        yield "convert"
        if self.beams > 1:
            yield "beams"
            return
        drawn = bool(self.temperature) or self.cuts
        if drawn and self.temperature not in (None, 1.0):
            yield "temperature"
        if self.cuts and sampler == "rejection":
            yield from ("softmax", "rejection")
            return
        if self.cuts:
            yield "sort"
        if self.top_k:
            yield "top-k"
        if self.top_p < 1:
            yield "top-p"
        if drawn:
            yield from ("softmax", "race")
        yield "argmax"


LIKELIEST: Final = Sampling()
"""Greedy choice, of which nothing was said."""


def over_logits(rows: Number, vocab: Number, name: str) -> Work:
    """One of the `PASSES` over the logits of a step.

    Source: beside each of them.

    Args:
        rows, vocab: Sequences that get a token; vocabulary V. [token]
        name: Which pass.

    Examples:
        >>> over_logits(1.0, 1000.0, "softmax").hbm_bytes
        12000.0
        >>> over_logits(1.0, 1000.0, "sort").hbm_bytes  # 4 · (2 · 12 + 4) · 1000
        112000.0
    """
    made = by(_FORMULAS[name], {"rows": rows, "V": vocab})
    return Work(activation_bytes=PASSES[name] * rows * vocab, made=made)
