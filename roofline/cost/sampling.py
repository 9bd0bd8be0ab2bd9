"""Choice of the next token: settings, and passes over the logits of a vocabulary of V.

Logits are taken in single precision, as engines convert them. A few vector FLOP per element are
left out. Engines choose on the device: the host sees tokens, not logits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from roofline.cost.branching import MOST_BEAMS
from roofline.cost.work import Formula, Number, Work, by
from roofline.errors import InputError
from roofline.hardware.serving_engine import Sampler

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


@dataclass(frozen=True, slots=True)
class Sampling:
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

    @property
    def given(self) -> bool:
        """True where anything was asked for."""
        return self.temperature is not None or self.cuts or self.beams > 1

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
