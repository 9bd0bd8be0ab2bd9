"""A predicted row of its own kind, and what predicts one."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end import held_out
from roofline.bench.end_to_end.cases import Row
from roofline.bench.end_to_end.held_out import Spreads
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.cost.work import Array
from roofline.serving.disaggregated import UNFITTED


class Prediction(Struct, frozen=True):
    """A predicted row."""

    row: Row
    """Row of the file, as it was read."""
    profile: str
    network: str
    """Profile of its engine, and kind of its network."""
    predicted: Mapping[str, float]
    """Metrics that the row has, in SI units, by name."""
    log_sd: Mapping[str, float]
    """Log standard deviation of each prediction. [1]"""
    basis: str
    """Sentence about how it is known."""


@dataclass(frozen=True)
class ApartRow(ABC):
    """A row that is read, and can be predicted."""

    place: int
    """Place in the file, from 0. [1]"""
    group: Hashable
    """Deployment, or several: the same tables price the rows that share it."""

    @abstractmethod
    def predict(self, logs: Array, spreads: Spreads) -> Prediction:
        """Prediction by constants of engines, and their spreads.

        Raises:
            RooflineError: It cannot be served.
        """


def wider(spreads: Spreads, each: PreparedRow, metric: str, more: float = 0.0) -> float:
    """Log standard deviation of a metric of a row of a kind that nothing was fitted to. [1]

    `more` is that of what else is not known than how a plain server would serve the row. [1]
    """
    return float(np.hypot(held_out.of(spreads, each, metric) * UNFITTED, more))
