"""What a change moved and why: one sentence from computed differences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, log
from typing import Final

from roofline.study.figures import Figures
from roofline.units import count, show, show_binary

STILL: Final = 0.005
"""Relative change below which a figure is said to stay."""

_DOING: Final = {
    "arithmetic": "arithmetic",
    "weights": "reading weights",
    "KV cache": "reading the KV cache",
    "activations": "moving activations",
    "wires": "the interconnect between devices",
    "host": "loading from the host",
    "engine": "the engine's own work",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Where a phase gained or lost most."""

    part: str
    """``"KV cache"``, ``"arithmetic"``…"""
    share: float
    """Of the phase in the base. [1]"""
    seconds: float
    """Now less before. [s]"""
    leading: bool
    """Whether it is what binds the phase in the base."""


def cause(before: Mapping[str, float], after: Mapping[str, float]) -> Cause | None:
    """Part of a phase that changed most in the direction of the whole; None if it stayed.

    Args:
        before, after: Time of the phase by what binds it. [s]

    Examples:
        >>> found = cause({"weights": 1.0, "KV cache": 3.0}, {"weights": 1.1, "KV cache": 1.0})
        >>> found.part, found.share, found.seconds, found.leading
        ('KV cache', 0.75, -2.0, True)
    """
    whole, now = sum(before.values()), sum(after.values())
    if not whole or abs(now / whole - 1) < STILL:
        return None
    moved = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}
    part = max(moved, key=lambda name: moved[name] * (1 if now > whole else -1))
    share = before.get(part, 0.0) / whole
    leading = before.get(part, 0.0) == max(before.values())
    return Cause(part, share, moved[part], leading)


def sentence(
    base: Figures, other: Figures, reasons: tuple[str, ...], *, static: bool = False
) -> str:
    """What moved, why, and what came of it.

    Args:
        base, other: Figures without and with the changes.
        reasons: What each change did, a few words.
        static: Whether TTFT and TPOT of the static batch are shown beside it, whose steps these
            are.
    """
    step, prompts = ("TPOT", "TTFT") if static else ("decode step", "prefill of the batch")
    moved = [text for _, text in sorted(_memory(base, other), reverse=True)]
    why = ", ".join(reasons)
    lead = f"{', '.join(moved)}: {why}" if moved else why
    clauses = [
        lead,
        *_phase(step, "decode", "a step", base.tpot_s, other.tpot_s, base.decode, other.decode),
        *_reads(base, other),
        *_phase(prompts, "prefill", "it", base.ttft_s, other.ttft_s, base.prefill, other.prefill),
        *_room(base, other),
    ]
    text = "; ".join(clauses)
    return f"{text[0].upper()}{text[1:]}."


def _memory(base: Figures, other: Figures) -> Iterator[tuple[float, str]]:
    """Counts that moved, with how far."""

    def far(before: float, after: float) -> float:
        return abs(log(after / before)) if before and after else inf if before != after else 0.0

    for name, before, after, how in (
        ("parameters", base.parameters, other.parameters, _parameters),
        ("KV cache per token", base.kv_bytes_per_token, other.kv_bytes_per_token, _exact),
    ):
        if before != after:
            yield far(before, after), f"{name} {how(before, after)}"
    if base.parameters == other.parameters and far(base.weight_bytes, other.weight_bytes) > STILL:
        before, after = base.weight_bytes, other.weight_bytes
        yield far(before, after), f"weights {show_binary(before)} → {show_binary(after)}"
    same = base.kv_bytes_per_token == other.kv_bytes_per_token
    if same and far(base.kv_bytes, other.kv_bytes) > STILL:
        before, after = base.kv_bytes, other.kv_bytes
        yield far(before, after), f"KV cache {show_binary(before)} → {show_binary(after)}"


def _parameters(before: float, after: float) -> str:
    return f"{show(before, '', 4)} → {show(after, '', 4)}"


def _exact(before: float, after: float) -> str:
    return f"{count(before)} → {count(after)} B"


def _phase(
    name: str,
    phase: str,
    step: str,
    before: float,
    after: float,
    parts: Mapping[str, float],
    others: Mapping[str, float],
) -> Iterator[str]:
    found = cause(parts, others)
    if found is None or not before:
        return
    far = f"{show(abs(found.seconds), 's')} {'more' if found.seconds > 0 else 'less'}"
    share = f"{found.share:.0%} of {step}"
    if found.leading:
        why = f"{phase} was bound by {_DOING[found.part]} ({share}), now {far}"
    else:
        why = f"{_DOING[found.part]} ({share}) takes {far}"
    yield f"{name} × {after / before:.2f} because {why}"


def _reads(base: Figures, other: Figures) -> Iterator[str]:
    """A smaller cache that is read as often as before is worth saying."""
    kept = other.kv_bytes / base.kv_bytes if base.kv_bytes else 1.0
    before, after = base.decode.get("KV cache", 0.0), other.decode.get("KV cache", 0.0)
    if abs(kept - 1) > STILL and before and abs(after / before - 1) < STILL:
        yield "the cache is read as much as before"


def _room(base: Figures, other: Figures) -> Iterator[str]:
    if base.largest_batch != other.largest_batch:
        yield f"largest batch {base.largest_batch:,} → {other.largest_batch:,}"
    if base.fits != other.fits:
        yield "now it fits" if other.fits else "it no longer fits"
