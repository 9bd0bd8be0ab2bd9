"""Refuse requests that cannot be served, before anything runs."""

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InputError
from roofline.serving.requests import Requests
from roofline.serving.simulate.server import BATCHED, Server
from roofline.serving.workload import MOST_TOKENS


def check(given: Requests, server: Server, first: int = 0, *, transferred: bool = False) -> None:
    """Refuse columns that do not fit together, and requests that the server can never hold.

    Args:
        given, server: What is to be served, and by what.
        first: Requests of the stream before these. [1]
        transferred: Whether the caches of prompts come with them.

    Raises:
        InputError: A column has another length, a value has no meaning, or a request does not fit.
    """
    for name in ("arrival", "prompt", "output", "priority", "after", "think"):
        if len(getattr(given, name)) != len(given):
            raise InputError(
                f"{name} has {len(getattr(given, name))} entries for {len(given)} requests",
                hint="give every request all of its columns",
            )
    _times(given, first)
    _lengths(given, first)
    _order(given, first)
    _blocks(given, server, first)
    _room(given, server, first)
    if transferred:
        _transferred(given, server, first)


def _at(wrong: NDArray[np.bool_]) -> int:
    return int(np.argmax(wrong))


def _times(given: Requests, first: int) -> None:
    for name, values in (("arrival", given.arrival), ("think", given.think)):
        wrong = ~(np.isfinite(values) & (values >= 0))
        if wrong.any():
            at = _at(wrong)
            raise InputError(
                f"{name} of request {first + at} is {values[at]:g} s",
                hint="give a time from 0 on",
            )
    late = np.diff(given.arrival) < 0
    if late.any():
        at = first + _at(late)
        raise InputError(
            f"request {at + 1} arrives before request {at}", hint="sort requests by arrival"
        )


def _lengths(given: Requests, first: int) -> None:
    for name, values in (("prompt", given.prompt), ("output", given.output)):
        wrong = (values < 1) | (values > MOST_TOKENS)
        if wrong.any():
            at = _at(wrong)
            raise InputError(
                f"{name} of request {first + at} has {values[at]} tokens",
                hint=f"give from 1 to {MOST_TOKENS:,} tokens",
            )


def _order(given: Requests, first: int) -> None:
    wrong = (given.after < -1) | (given.after >= first + np.arange(len(given)))
    if wrong.any():
        at = _at(wrong)
        raise InputError(
            f"request {first + at} comes after request {given.after[at]}",
            hint="let it come after an earlier one, or after none: -1",
        )
    if (wrong := (given.after >= 0) & (given.after < first)).any():
        at = _at(wrong)
        raise InputError(
            f"request {first + at} comes after request {given.after[at]} of an earlier part",
            hint="keep the requests of a conversation in one part of a stream",
        )


def _blocks(given: Requests, server: Server, first: int) -> None:
    sizes = np.diff(given.prefix)
    known = len(given.prefix) == len(given) + 1 and given.prefix[0] == 0 and (sizes >= 0).all()
    if not known or given.prefix[-1] != len(given.hashes):
        raise InputError(
            "ids of blocks do not fit the requests",
            hint="give offsets from 0 to the number of ids, one more than requests",
        )
    wrong = sizes * given.block > given.prompt
    if wrong.any():
        at = _at(wrong)
        raise InputError(
            f"request {first + at} has {sizes[at]} blocks of {given.block} tokens in a prompt of "
            f"{given.prompt[at]}",
            hint="give ids of whole blocks only",
        )
    if server.sharing and len(given.hashes) and given.block != server.page:
        raise InputError(
            f"blocks have {given.block} tokens and pages {server.page}",
            hint="prefixes are shared page by page: make them equal",
        )


def _room(given: Requests, server: Server, first: int) -> None:
    if server.kv == "contiguous" and server.region == "longest":
        longest = given.prompt + given.output - 1
        if (wrong := longest > server.longest).any():
            at = _at(wrong)
            raise InputError(
                f"request {first + at} is {longest[at]} tokens long, its region {server.longest}",
                hint="give a longer longest context, or shorter requests",
            )
    needs = np.array([server.most_tokens(*each) for each in _longest(given)], dtype=np.int64)
    wrong = needs > server.kv_tokens
    if wrong.any():
        prompt, output = _longest(given)[_at(wrong)]
        at = _at((given.prompt == prompt) & (given.output == output))
        raise InputError(
            f"request {first + at} of {prompt} + {output} tokens needs {needs[_at(wrong)]} of "
            f"cache, the server has {server.kv_tokens}",
            hint="give shorter requests, or a deployment with more memory for the cache",
        )


def _transferred(given: Requests, server: Server, first: int) -> None:
    if server.policy in BATCHED:
        raise InputError(
            f"caches that come from elsewhere, with {server.policy} batches",
            hint="use policy continuous or chunked",
        )
    wrong = given.output < 2
    if wrong.any():
        raise InputError(
            f"request {first + _at(wrong)} has one token, and that came with it",
            hint="leave requests of one token to the instance that prefills",
        )


def _longest(given: Requests) -> list[tuple[int, int]]:
    """Lengths of the request that stays longest, and of the one whose prompt is longest."""
    if not len(given):
        return []
    places = {int(np.argmax(given.prompt + given.output)), int(np.argmax(given.prompt))}
    return [(int(given.prompt[at]), int(given.output[at])) for at in sorted(places)]
