"""Draft lengths that follow the batch: rounds are counted as they run, not before.

Every token of an answer has a draw of its own, from 0 to 1: a draft is right there where that is
below its acceptance. So how far a round goes depends on where it begins and how much it drafts, and
on nothing else that happens.
"""

import numpy as np

from roofline.serving.simulate.compiled import heap
from roofline.serving.simulate.compiled.compiler import compiled
from roofline.serving.simulate.compiled.state import DECODING, PacedDrafts, State

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
"""Constants of SplitMix64: Steele, Lea and Flood 2014, OOPSLA, figure 13 and its variants."""


@compiled
def draw(key: np.uint64, position: int) -> float:
    """Draw of a token of a request, from 0 to 1. [1]"""
    x = key + np.uint64(position) * STEP
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    x = x ^ (x >> np.uint64(31))
    return float(x >> np.uint64(11)) * 2.0**-53


@compiled
def after_round(d: PacedDrafts, k: int, made: int, length: int) -> int:
    """Tokens of a request after a round that begins with so many and drafts so many. [token]"""
    rates, accepted = d.rates[k if len(d.rates) > 1 else 0], 0
    while accepted < length and draw(d.keys[k], made + accepted) < rates[accepted]:
        accepted += 1
    return made + accepted + 1


@compiled
def rounds_left(d: PacedDrafts, k: int, length: int) -> int:
    """Rounds of that length until a request has all its tokens. [1]"""
    rounds, made = 0, d.made[k]
    while made < d.tokens[k]:
        made = after_round(d, k, made, length)
        rounds += 1
    return rounds


@compiled
def catch_up(d: PacedDrafts, s: State, i: int) -> None:
    """Count the tokens of the rounds since a request joined, or the length changed last."""
    n, k = s.counts[0], s.rows[i].number
    made = d.made[k]
    for _ in range(n.clock - d.since[k]):
        made = after_round(d, k, made, n.length)
    d.made[k], d.since[k] = made, n.clock


@compiled
def follow(d: PacedDrafts, s: State, decoding: int) -> None:
    """Take the length of the batch, and find anew when its sequences end."""
    n, r, length = s.counts[0], s.rows, d.lengths[decoding]
    if length == n.length:
        return
    for place in range(decoding):
        i = s.lists[DECODING, place]
        catch_up(d, s, i)
        r[i].ends = n.clock + rounds_left(d, r[i].number, length)
    for place in range(decoding):
        heap.push(s.lists, DECODING, place, s.lists[DECODING, place], r)
    n.length = length
