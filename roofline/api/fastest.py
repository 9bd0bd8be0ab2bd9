"""Engine that serves a deployment fastest, of those whose own costs are known."""

from typing import Any, Final

from roofline.api.analysis import analyze
from roofline.api.parameters import Analysis, ServeCommandQuestion
from roofline.api.question import parameters_of
from roofline.errors import InfeasibleError, InputError, RooflineError
from roofline.interop.commands import targets

CANDIDATES: Final = tuple(name for name in targets.ENGINES if targets.PRICED_AS[name] == name)
"""Engines that are compared: others are priced as ideal ones, which nothing is slower than."""

NOT_MEASURED: Final = "it was not measured on such devices, and its bounds are no forecast"


def fastest(asked: ServeCommandQuestion) -> tuple[str, tuple[str, ...]]:
    """Name of the engine with most output tokens a second at the benchmark's load, and notes.

    Each is priced as `roofline.api.analyze` does, with a batch that is kept full.

    Raises:
        InputError: An engine is named beside ``auto``.
        InfeasibleError: None of them runs the deployment, each for a reason of its own.
        RooflineError: The same is wrong for all of them, as a network that is not known.
    """
    if asked.engine is not None:
        raise InputError(
            f"the command is for auto, the engine is {asked.engine}", hint="say one of them"
        )
    known = set(parameters_of(Analysis)) - {"engine", "draft_length"}
    same: dict[str, Any] = {name: value for name, value in vars(asked).items() if name in known}
    priced: dict[str, tuple[float, float, float]] = {}
    bounds: dict[str, tuple[float, float, float]] = {}
    refused: dict[str, RooflineError] = {}
    for name in CANDIDATES:
        try:
            found = analyze(**same | {"engine": name, "batch": asked.concurrency})
        except RooflineError as error:
            refused[name] = error
            continue
        row = next(
            each for each in found.tables["headline"].rows() if each["metric"] == "throughput_tok_s"
        )
        low, high = (row.get(end) or row["value"] for end in ("low", "high"))
        bounded = found.metadata["basis"] == "datasheet"
        (bounds if bounded else priced)[name] = (row["value"], low, high)
    left = {name: error.message for name, error in refused.items()}
    if priced:
        left |= dict.fromkeys(bounds, NOT_MEASURED)
    else:
        priced = bounds
    why = [f"{name} is left out: {reason}" for name, reason in left.items()]
    if not priced:
        first, *others = refused.values()
        if all(str(error) == str(first) for error in others):
            raise first
        raise InfeasibleError(f"none of {', '.join(CANDIDATES)} runs this", hint="; ".join(why))
    best = max(priced, key=lambda name: priced[name][0])
    said = ", ".join(
        f"{name} {value:,.0f} ({low:,.0f}–{high:,.0f})"
        for name, (value, low, high) in priced.items()
    )
    notes = [
        f"{best} is the fastest by output tokens/s at {asked.concurrency:,} requests at once, with "
        f"80 % intervals: {said}"
    ]
    *near, last = [name for name in priced if priced[name][2] >= priced[best][1]]
    if near:
        notes.append(f"the intervals of {', '.join(near)} and {last} overlap: measure them all")
    return best, (*notes, *why)
