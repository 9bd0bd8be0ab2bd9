"""A step priced stage by stage of its pipeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.roof import CHOSEN, Parts, Time, parts, roof
from roofline.cost.stages import Stage, pipeline
from roofline.cost.step import Group, steps
from roofline.cost.work import Number, Op


@dataclass(frozen=True, slots=True)
class Priced:
    """A stage of a step.

    Attributes
    ----------
    deployment, stage
        What runs, and which layers of it.
    ops
        Operators by name, with what each limit takes of all executions.
    parts
        Their time by what can be hidden behind what.
    """

    deployment: Deployment
    stage: Stage
    ops: Mapping[str, tuple[Op, Time]]
    parts: Parts

    def seconds(self, serial: bool = False) -> Number:
        """Time of the stage, or what it would be if nothing overlapped. [s]"""
        return self.parts.serial if serial else self.parts.seconds(self.deployment)

    def exposed(self, op: Op, time: Time) -> Number:
        """Time of an operator without its share of what is hidden behind others. [s]"""
        wire, host = self.parts.hidden(self.deployment)
        hidden, whole = {
            "collective": (wire, self.parts.wire),
            "host": (host, self.parts.host),
        }.get(op.kind, (0.0, 1.0))
        if not np.any(hidden) or op.algorithm == CHOSEN:
            return time.seconds
        shown: Number = time.seconds * (1.0 - hidden / np.maximum(whole, 1e-300))
        return shown


def through(deployment: Deployment, group: Group | Sequence[Group]) -> tuple[Priced, ...]:
    """Price a step on every stage, in order; equal stages are priced once.

    Parameters
    ----------
    deployment
        What runs.
    group
        One micro-batch, or the groups of a mixed one; numbers may be arrays over the scenario axis.
    """
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    keys = [
        (stage.layers, stage.first, stage.last, np.asarray(stage.crosses).tobytes())
        for stage in stages
    ]
    different = dict(zip(keys, stages, strict=True))
    made = steps(deployment, group, list(different.values()))
    known = {
        key: _price(deployment, stage, ops)
        for (key, stage), ops in zip(different.items(), made, strict=True)
    }
    return tuple(known[key] for key in keys)


def _price(deployment: Deployment, stage: Stage, ops: Mapping[str, Op]) -> Priced:
    timed = {name: (op, roof(op, deployment, float(op.repeat))) for name, op in ops.items()}
    return Priced(deployment, stage, timed, parts(timed.values()))


def slowest_number(seconds: Sequence[float]) -> int:
    """Place of the stage that takes longest; the first of equals. [1]"""
    return max(range(len(seconds)), key=lambda place: seconds[place])


def slowest(stages: Sequence[Priced]) -> Priced:
    """The stage that takes longest, on average over the scenario axis; the first of equals."""
    return max(stages, key=lambda stage: float(np.mean(stage.seconds())))


def log_sd_of_slowest(stages: Sequence[Priced]) -> Number:
    """Standard deviation of the logarithm of the time of the slowest stage, row by row. [1]"""
    found, most = stages[0].parts.log_sd, stages[0].seconds()
    for stage in stages[1:]:
        seconds = stage.seconds()
        found = np.where(seconds > most, stage.parts.log_sd, found)[()]
        most = np.maximum(seconds, most)
    return found
