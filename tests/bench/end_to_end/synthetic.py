"""A deployment whose steps follow a law that can be computed by hand."""

from typing import Any

import numpy as np

from roofline.bench.end_to_end import tables as grid
from roofline.bench.end_to_end.cases import Case, Row
from roofline.bench.end_to_end.engines import Engine
from roofline.bench.end_to_end.tables import Tables
from roofline.cost.layout import Layout

WEIGHTS = 5e-3
TOKEN = 2e-5
KEY = 1e-9
PAIR = 1e-11
"""A step reads the weights, then each token, each key that a decoding sequence sees, and each pair
of a prompt takes its time. [s]"""
PLAIN = Engine("plain", "whole-prompts", 2**30, 4096, 1.0, (), {})
CASE = Case("llama-3.1-8b", "h100-sxm", "checkpoint", "", "auto", Layout(), "vllm")


def tables(room: float = 1e9) -> Tables:
    """Prices of that deployment; only the first class of operators takes time."""
    body = np.zeros((len(grid.TOKENS), len(grid.CLASSES)))
    body[:, 0] = WEIGHTS + TOKEN * grid.TOKENS
    counts, contexts = np.meshgrid(grid.COUNTS, grid.CONTEXTS, indexing="ij")
    return Tables(
        body,
        np.zeros_like(body),
        KEY * counts * contexts,
        PAIR * grid.PROMPTS**2,
        room,
        WEIGHTS,
    )


def row(mode: str = "steady_concurrency", **changes: Any) -> Row:
    """A row of that deployment."""
    fields: dict[str, Any] = {
        "place": 0,
        "case": CASE,
        "mode": mode,
        "engine": "plain",
        "version": "",
        "family": "",
        "batch": 1.0,
        "isl": 1024.0,
        "osl": 65.0,
        "replicas": 1.0,
        "devices": 1.0,
        "measured": {},
    }
    return Row(**{**fields, **changes})


def step(decoding: int, keys: float, new: int) -> float:
    """Time of a step by the law, without attention of prompts. [s]"""
    return WEIGHTS + TOKEN * (decoding + new) + KEY * keys
