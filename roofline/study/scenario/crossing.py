"""Axes of a scenario and the grid they span."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from roofline.errors import DocumentError, InputError, UnknownNameError, did_you_mean
from roofline.records import replace
from roofline.schema import Document
from roofline.schema.document import shown
from roofline.serving.workload import MOST_SEQUENCES, MOST_TOKENS
from roofline.study.grid import (
    ListedNumbers,
    Name,
    NameAxis,
    NumberAxis,
    Series,
    SteppedNumbers,
    SweepGrid,
)
from roofline.study.scenario import naming
from roofline.study.scenario.files import BatchFile, NumbersFile, RangeFile, TrafficFile
from roofline.study.scenario.scenario import LayoutsOnGpus, Scenario

WHOLE: Final = {
    "batch": MOST_SEQUENCES,
    "prompt": MOST_TOKENS,
    "output": MOST_TOKENS,
    "concurrency": MOST_SEQUENCES,
}
"""Axes of whole numbers from 1, and the most that has a meaning."""
MOST_RATE: Final = 2.0**30
MOST_STEPS: Final = 2**53
"""Places of an axis: a float has no more whole numbers."""


def series_of(name: str, asked: NumbersFile) -> Series:
    """Numbers of an axis.

    Raises:
        InputError: A number has no meaning for the axis, is there twice, or a range does not go up.

    Examples:
        >>> series_of("batch", RangeFile.model_validate(
        ...     {"from": 1, "to": 64, "points": 4, "scale": "log"}))
        ListedNumbers(values=(1.0, 4.0, 16.0, 64.0))
    """
    if not isinstance(asked, RangeFile):
        values = asked if isinstance(asked, tuple) else (asked,)
        for value in values:
            _check(name, value)
        if len(set(values)) < len(values):
            raise InputError(f"{name} has a number twice", hint="say each number once")
        return ListedNumbers(tuple(float(value) for value in values))
    if (asked.step is None) == (asked.points is None):
        raise InputError(
            f"{name} from {asked.first:g} to {asked.to:g} needs a step or a number of points",
            hint="write {from: 1, to: 64, step: 1}, or {from: 1, to: 64, points: 7, scale: log}",
        )
    for value in (asked.first, asked.to):
        _check(name, value)
    if asked.to < asked.first:
        raise InputError(
            f"{name} goes from {asked.first:g} down to {asked.to:g}",
            hint="write the smaller number first",
        )
    return _steps(name, asked) if asked.step is not None else _points(name, asked)


def _steps(name: str, asked: RangeFile) -> SteppedNumbers:
    assert asked.step is not None
    if asked.scale == "log":
        raise InputError(
            f"{name} has a step on a logarithmic scale", hint="give points in place of a step"
        )
    if name in WHOLE and asked.step != int(asked.step):
        raise InputError(f"step of {name} is {asked.step:g}", hint="give a whole number")
    # A last number that rounding pushed beyond the end still belongs to it.
    places = int((asked.to - asked.first) / asked.step * (1 + 2.0**-50)) + 1
    if places > MOST_STEPS:
        raise InputError(f"{name} has {places:,} numbers", hint="give a larger step")
    return SteppedNumbers(float(asked.first), float(asked.step), places)


def _points(name: str, asked: RangeFile) -> ListedNumbers:
    assert asked.points is not None
    if asked.scale == "log":
        if asked.first <= 0:
            raise InputError(f"{name} from {asked.first:g} has no logarithm", hint="start above 0")
        values = np.geomspace(asked.first, asked.to, asked.points)
    else:
        values = np.linspace(asked.first, asked.to, asked.points)
    if name in WHOLE:
        values = np.rint(values)
    # Whole numbers that several points round to are one.
    return ListedNumbers(tuple(float(value) for value in np.unique(values)))


def _check(name: str, value: float) -> None:
    if name in WHOLE:
        if value != int(value) or not 1 <= value <= WHOLE[name]:
            raise InputError(
                f"{name} cannot be {value:g}", hint=f"give whole numbers from 1 to {WHOLE[name]:,}"
            )
    elif not 0 < value <= MOST_RATE:
        raise InputError(f"{name} cannot be {value:g}", hint="give requests a second, above 0")


NAMED: Final[Mapping[str, str]] = {
    "models": "model",
    "gpus": "machine",
    "nodes": "machine",
    "layouts": "layout",
    "weights": "weights",
    "kv": "kv",
    "engines": "engine",
    "techniques": "technique",
    "workloads": "workload",
    "policies": "policy",
}
"""Keys whose values are names, and the axis of a grid that each of them is."""
NUMBERED: Final = ("batch", "prompt", "output", "rate", "concurrency")


def numbers_of(document: Document, file: BatchFile | TrafficFile) -> dict[str, Series]:
    """Axes of numbers by column; of traffic either a rate or clients."""
    if isinstance(file, BatchFile):
        asked: dict[str, Any] = {name: getattr(file, name) for name in NUMBERED[:3]}
    else:
        asked = {
            name: getattr(file, name) for name in NUMBERED[3:] if getattr(file, name) is not None
        }
        if len(asked) != 1:
            raise DocumentError(
                "a traffic scenario needs a rate or a concurrency, and not both",
                hint="write 'rate: [1, 2, 4]' in requests a second, or 'concurrency: [8, 16]'",
                where=document.where_key(*list(asked)[1:]),
            )
    out = {}
    for name, value in asked.items():
        with document.at(name):
            out["rate_per_s" if name == "rate" else name] = series_of(name, value)
    return out


def zipped(document: Document, file: BatchFile | TrafficFile, out: Scenario) -> Scenario:
    """The scenario with the axes that go together, all of them of one length."""
    groups: list[tuple[str, ...]] = []
    before: list[str] = []
    for number, keys in enumerate(file.zip):
        with document.at("zip", number):
            lengths = {}
            for key in keys:
                naming.once(key, before)
                before.append(key)
                lengths[key] = _length(file, out, key)
            if len({key in NUMBERED for key in keys}) > 1:
                raise InputError(
                    f"{' and '.join(keys)} are names and numbers",
                    hint="zip names with names, and numbers with numbers",
                )
            if len(set(lengths.values())) > 1:
                said = ", ".join(f"{key} has {count:,}" for key, count in lengths.items())
                raise InputError(f"zipped axes differ in length: {said}", hint="make them equal")
        groups.append(tuple(NAMED.get(key, "rate_per_s" if key == "rate" else key) for key in keys))
    return replace(out, zipped=tuple(groups))


def _length(file: BatchFile | TrafficFile, out: Scenario, key: str) -> int:
    known = [*NAMED, *NUMBERED]
    if key not in known or key not in type(file).model_fields or getattr(file, key) is None:
        lead = "" if key in known else did_you_mean(key, known)
        raise UnknownNameError(
            f"{shown(key)} is no axis of this scenario", hint=f"{lead}axes: {', '.join(known)}"
        )
    if key in NUMBERED:
        return len(out.numbers["rate_per_s" if key == "rate" else key])
    values = out.machines if key in ("gpus", "nodes") else getattr(out, key)
    if isinstance(values, LayoutsOnGpus):
        raise InputError("layouts that are found cannot be zipped", hint="name the layouts")
    return len(values)


def grid_of(
    scenario: Scenario, found: Callable[[str, str, LayoutsOnGpus], tuple[str, ...]]
) -> SweepGrid:
    """Grid that a scenario spans."""
    names = _names(scenario)
    if isinstance(scenario.layouts, LayoutsOnGpus):
        blocks = []
        for model in names["model"]:
            for machine in names["machine"]:
                layouts = found(str(model), str(machine), scenario.layouts)
                here = {**names, "model": (model,), "machine": (machine,), "layout": layouts}
                blocks.append(_axes(here, scenario.zipped))
    else:
        blocks = [_axes(names, scenario.zipped)]
    return SweepGrid(tuple(blocks), _numbers(scenario))


def _names(scenario: Scenario) -> dict[str, tuple[Name, ...]]:
    """Axes of names, slowest first; of a network, technique, patch or workload its name."""
    layouts = scenario.layouts
    axes: dict[str, tuple[Name, ...]] = {
        "model": tuple(model.name for model in scenario.models),
        "machine": scenario.machines,
        "layout": () if isinstance(layouts, LayoutsOnGpus) else layouts,
        "weights": scenario.weights,
        "kv": scenario.kv,
        "engine": scenario.engines,
        "technique": tuple(technique.name for technique in scenario.techniques),
        "patch": tuple(patch.name for patch in scenario.patches),
    }
    if scenario.kind == "traffic":
        axes["workload"] = tuple(workload.name for workload in scenario.workloads)
        axes["policy"] = scenario.policies or ("auto",)
    return axes


def _axes(
    names: Mapping[str, tuple[Name, ...]], zipped: tuple[tuple[str, ...], ...]
) -> tuple[NameAxis, ...]:
    """Axes in their order; those that go together are where the first of them is."""
    out = []
    for name in names:
        group = next((group for group in zipped if name in group), (name,))
        if name == min(group, key=list(names).index):
            out.append(NameAxis(group, tuple(zip(*(names[each] for each in group), strict=True))))
    return tuple(out)


def _numbers(scenario: Scenario) -> tuple[NumberAxis, ...]:
    out = []
    for name in scenario.numbers:
        group = next((group for group in scenario.zipped if name in group), (name,))
        if name == min(group, key=list(scenario.numbers).index):
            out.append(NumberAxis({each: scenario.numbers[each] for each in group}))
    return tuple(out)
