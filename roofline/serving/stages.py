"""A step priced stage by stage of its pipeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.placement import Stage, pipeline
from roofline.cost.roof import Parts, Time, parts, roof
from roofline.cost.step import Group, step
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
        if not np.any(hidden):
            return time.overlapped
        shown: Number = time.overlapped * (1.0 - hidden / np.maximum(whole, 1e-300))
        return shown


def through(deployment: Deployment, group: Group) -> tuple[Priced, ...]:
    """Price a step on every stage, in order; equal stages are priced once.

    Parameters
    ----------
    deployment
        What runs.
    group
        One micro-batch; numbers may be arrays over the scenario axis.
    """
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    known: dict[object, Priced] = {}
    out = []
    for stage in stages:
        crosses = np.asarray(stage.crosses).tobytes()
        key = (stage.layers, stage.first, stage.last, crosses)
        if key not in known:
            known[key] = _price(deployment, group, stage)
        out.append(known[key])
    return tuple(out)


def _price(deployment: Deployment, group: Group, stage: Stage) -> Priced:
    ops = step(deployment, group, stage)
    timed = {name: (op, roof(op, deployment, float(op.repeat))) for name, op in ops.items()}
    return Priced(deployment, stage, timed, parts(timed.values()))


def slowest(stages: Sequence[Priced]) -> Priced:
    """The stage that takes longest, on average over the scenario axis; the first of equals."""
    return max(stages, key=lambda stage: float(np.mean(stage.seconds())))
