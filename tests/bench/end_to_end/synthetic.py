"""A deployment whose steps follow a law that can be computed by hand."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.bench.end_to_end.cases import Case, Row
from roofline.bench.end_to_end.driving import traffic_of
from roofline.bench.end_to_end.replay import SEED, PreparedRow, asked_of, known
from roofline.cost.engine_costs import NO_ENGINE, EngineProfile
from roofline.cost.layout import Layout
from roofline.cost.measured import MeasuredTime
from roofline.cost.work import Op
from roofline.hardware.machine import Gpu
from roofline.records import replace

WEIGHTS = 5e-3
TOKEN = 2e-5
KEY = 1e-9
PAIR = 2e-11
"""A step reads the weights, then each token, each key that a decoding sequence sees, and each pair
of a prompt's tokens takes its time. [s]"""
LAYERS = 32
QKV_BYTES = 2 * (4096 + 6144)
"""Input and output of the projection, of a token. [B]"""
KV_BYTES = 2 * 2 * 8 * 128
"""Keys and values of a token in a layer. [B]"""
PAIR_FLOPS = 4 * 32 * 128
CASE = Case("llama-3.1-8b", "h100-sxm", "checkpoint", "", "auto", Layout(), "vllm")


@dataclass(frozen=True)
class Law:
    """Kernels of llama-3.1-8b in 16 bits on one device, of which three take time."""

    name: str = "law"
    basis: str = "interpolated"
    profile: EngineProfile = NO_ENGINE

    def price(self, op: Op, gpu: Gpu) -> MeasuredTime:
        seconds: Any = 0.0 * np.asarray(op.work.flops)
        if op.name == "qkv":
            seconds = WEIGHTS + TOKEN * op.work.activation_bytes / QKV_BYTES
        elif op.kind == "decode-attention":
            seconds = KEY * op.work.kv_bytes / KV_BYTES
        elif op.kind == "prefill-attention":
            seconds = PAIR * op.work.flops / PAIR_FLOPS
        return MeasuredTime(seconds / LAYERS, 0.1, 3.0)


def row(mode: str = "steady_concurrency", **changes: Any) -> Row:
    """A row of that deployment."""
    fields: dict[str, Any] = {
        "place": 0,
        "case": CASE,
        "mode": mode,
        "engine": "vllm",
        "version": "",
        "family": "",
        "batch": 1.0,
        "isl": 1024.0,
        "osl": 65.0,
        "replicas": 1.0,
        "devices": 1.0,
        "measured": {},
        "lengths": (1.0, 1.0),
    }
    return Row(**{**fields, **changes})


def lawful(mode: str = "steady_concurrency", **changes: Any) -> PreparedRow:
    """The row with what serves it."""
    found = known(row(mode, **changes))
    return replace(found, deployment=replace(found.deployment, calibration=Law()))


def limited(found: PreparedRow, **changes: Any) -> PreparedRow:
    """The row on a server with other limits."""
    return replace(found, server=replace(found.server, **changes))


def prefill(prompts: int, tokens: int) -> float:
    """Time of a step of whole prompts of equal lengths by the law. [s]"""
    return WEIGHTS + prompts * (TOKEN * tokens + PAIR * tokens * (tokens + 1) / 2)


def decode(sequences: int, context: float) -> float:
    """Time of a step that decodes sequences of a mean context by the law. [s]"""
    return WEIGHTS + sequences * (TOKEN + KEY * context)


def settings(each: PreparedRow) -> dict[str, Any]:
    """Keywords of `roofline.simulate` that ask what a row of a closed loop asks."""
    row, found = each.row, each.deployment
    traffic, asked = traffic_of(row), asked_of(row)
    usual = found.calibration is not None and found.calibration.name == "usual kernels"
    return {
        "model": found.architecture,
        "gpu": row.case.gpu,
        "gpus": int(row.devices),
        "layout": row.case.layout.spelled,
        "kv": row.case.kv,
        "engine": found.engine.name,
        "calibration": "usual" if usual else "auto",
        "workload": traffic,
        "max_sequences": asked.max_sequences,
        "token_budget": asked.token_budget,
        "recv_interval": asked.recv_interval,
        "stream_interval": asked.stream_interval,
        "dp_timeout_iters": asked.dp_timeout_iters,
        "cold": asked.cold,
        "memory_utilization": each.utilization,
        "seed": SEED,
    }
