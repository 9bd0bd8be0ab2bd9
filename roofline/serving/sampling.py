"""Sampling of the next token as operators: passes over the logits."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from roofline.cost.sampling import converted, over_logits
from roofline.cost.work import Number, Op
from roofline.errors import InputError


@dataclass(frozen=True, slots=True)
class Sampling:
    """Settings of the sampler."""

    temperature: float = 0.0
    """0 takes the likeliest token. [1]"""
    top_k: int = 0
    """Only the k likeliest; 0 for all. [1]"""
    top_p: float = 1.0
    """Only the likeliest that together have this probability; 1 for all. [1]"""
    method: Literal["sort", "rejection"] = "sort"
    """Algorithm of top-k and top-p: ``"sort"``, or ``"rejection"`` of draws."""
    rounds: float = 2.0
    """Draws until one is kept; assumed. [1]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if not 0 <= self.temperature < 1000:
            raise InputError(
                f"temperature is {self.temperature:g}", hint="give 0 for greedy, or more"
            )
        if self.top_k < 0 or not 0 < self.top_p <= 1:
            raise InputError(
                f"top-k is {self.top_k}, top-p is {self.top_p:g}",
                hint="give k of 0 (all) or more, and p above 0 and up to 1 (all)",
            )
        if self.rounds < 1:
            raise InputError(f"{self.rounds:g} rounds of draws", hint="give 1 or more")
        if self.temperature == 0 and (self.top_k > 1 or self.top_p < 1):
            raise InputError(
                "greedy choice with top-k or top-p",
                hint="they change nothing: leave them out, or give a temperature",
            )


def sampling_ops(
    sampling: Sampling, rows: Number, vocab: Number, *, width: Number = 2.0
) -> dict[str, Op]:
    """Passes over the logits of a step, in order, by name.

    Args:
        sampling: How the next token is chosen.
        rows: Sequences that get a token. [1]
        vocab: Vocabulary V. [token]
        width: Bytes per logit as the LM head writes it. [B]

    Examples:
        >>> list(sampling_ops(Sampling(), 1.0, 1000.0))
        ['logits-to-single', 'argmax']
        >>> list(sampling_ops(Sampling(0.7, top_p=0.9), 1.0, 1000.0))
        ['logits-to-single', 'temperature', 'sort', 'softmax', 'top-p', 'softmax-2', 'draw']
    """
    made = {"logits-to-single": converted(rows, vocab, width=width)}
    passed = partial(over_logits, rows, vocab)
    cut = sampling.top_k > 0 or sampling.top_p < 1
    if sampling.temperature == 0:
        made["argmax"] = passed("argmax")
    else:
        if sampling.temperature != 1:
            made["temperature"] = passed("temperature")
        if cut and sampling.method == "rejection":
            made["softmax"] = passed("softmax")
            made["draw"] = passed("draw-and-check", times=sampling.rounds)
        else:
            if cut:
                made["sort"] = passed("sort")
            if sampling.top_k:
                made["top-k"] = passed("top-k")
            if sampling.top_p < 1:
                made["softmax"] = passed("softmax")
                made["top-p"] = passed("top-p")
            made["softmax-2" if "softmax" in made else "softmax"] = passed("softmax")
            made["draw"] = passed("draw")
    dims = {"m": rows, "width": vocab}
    return {
        name: Op(name, "pointwise", work, arithmetic="fp32" if name != "logits-to-single" else "",
                 dims=dims)
        for name, work in made.items()
    }  # fmt: skip
