"""Requests as columns: when they arrive, how long they are, what they wait for and share."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in order of arrival, one row each."""

    arrival: Array
    """Since the start, never less than the one before; 0 where a client of a closed loop releases
    it, and that of the first turn where it follows another. [s]"""
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    """Tokens of the prompt and of the answer, 1 or more. [token]"""
    priority: NDArray[np.int64]
    """Class: 0 goes first. [1]"""
    after: NDArray[np.int64]
    """Row of the request that must have finished before, counted from the start of the stream;
    −1 for none. [1]"""
    think: Array
    """Between that finish and this arrival. [s]"""
    prefix: NDArray[np.int64]
    """Where the row's hashes start, and in one entry more where the last one's end. [1]"""
    hashes: NDArray[np.int64]
    """Ids of whole blocks at the start of a prompt: equal ids are equal tokens after equal
    tokens. Blocks that are not listed nobody shares."""
    block: int
    """Tokens of a hashed block; 0 where there are none. [token]"""

    def __len__(self) -> int:
        """Requests."""
        return len(self.arrival)
