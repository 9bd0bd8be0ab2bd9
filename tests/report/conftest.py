"""A result small enough to check by hand: 1000 FLOP/s, 10 B/s, ridge at 100 FLOP/B."""

from typing import Any

import pytest

from roofline.records import replace
from roofline.table import Derivation, Result, Table, table

OPS: list[dict[str, Any]] = [
    # phase, op, kind, FLOPs, HBM bytes, wire bytes, compute s, memory s, wire s, bound
    {"phase": "prefill", "op": "gate", "kind": "gemm", "flops": 200000.0, "hbm_bytes": 1000.0},
    {"phase": "prefill", "op": "norm", "kind": "pointwise", "flops": 0.0, "hbm_bytes": 500.0},
    {"phase": "decode", "op": "gate", "kind": "gemm", "flops": 2000.0, "hbm_bytes": 200.0},
    {"phase": "decode", "op": "attention", "kind": "decode-attention", "flops": 400.0,
     "hbm_bytes": 400.0},
    {"phase": "decode", "op": "all-reduce", "kind": "collective", "flops": 0.0, "hbm_bytes": 0.0,
     "wire_bytes": 100.0},
]  # fmt: skip
TOTAL = {"prefill": 250.0, "decode": 70.0}


def _op(given: dict[str, Any]) -> dict[str, Any]:
    wire = given.get("wire_bytes", 0.0)
    times = {"compute": given["flops"] / 1000, "memory": given["hbm_bytes"] / 10, "wire": wire / 10}
    seconds = max(times.values())
    return {
        "phase": given["phase"],
        "op": given["op"],
        "kind": given["kind"],
        "repeat": 2,
        "seconds": seconds,
        "share": seconds / TOTAL[given["phase"]],
        "bound": max(times, key=lambda name: times[name]),
        "arithmetic": "bf16" if given["flops"] else "",
        "flops": given["flops"],
        "hbm_bytes": given["hbm_bytes"],
        "intensity": given["flops"] / given["hbm_bytes"] if given["hbm_bytes"] else 0.0,
        "serial_s": sum(times.values()),
        "compute_s": times["compute"],
        "memory_s": times["memory"],
        "wire_s": times["wire"],
        "weight_bytes": given["hbm_bytes"],
        "activation_bytes": 0.0,
        "kv_bytes": 0.0,
        "wire_bytes": wire,
    }


def _tables(free: float) -> dict[str, Table]:
    metrics = (
        ("ttft_s", 250.0, 350.0, "s"),
        ("tpot_s", 70.0, 72.4, "s"),
        ("throughput_tok_s", 0.125, 0.1, "token/s"),
    )
    headline = [
        {"metric": name, "value": value, "serial": serial, "unit": unit, "basis": "datasheet",
         "meaning": f"meaning of {name}"}
        for name, value, serial, unit in metrics
    ]  # fmt: skip
    parts = (("weights", 40.0), ("KV cache", 40.0 - free), ("activations", 0.0), ("runtime", 10.0))
    memory = [
        {"part": part, "bytes": value, "share": value / 100, "known": "derived"}
        for part, value in (*parts, ("free", free), ("not used by the engine", 10.0))
    ]
    most = 6 if free > 0 else 3
    capacity = [
        {"limit": "largest batch", "value": most, "unit": "sequence",
         "at": "context 9", "set by": "memory"}
    ]  # fmt: skip
    curve = [
        {
            "batch": batch,
            "ttft_s": 62.5 * batch,
            "tpot_s": 60.0 + 2.5 * batch,
            "throughput_tok_s": batch / 32,
            "fits": batch <= most,
        }
        for batch in (1, 2, 4, 8)
    ]
    changes = (("fp8", "--weights fp8", 1.0, 0.5, 2.0, True), ("more", "", 2.0, 1.2, 3.0, False))
    what_if = [
        dict(zip(("change", "option", "ttft", "tpot", "throughput", "fits"), row, strict=True))
        for row in changes
    ]
    roofs = [
        {"kind": "arithmetic", "name": "bf16", "rate": 1000.0, "unit": "FLOP/s"},
        {"kind": "bandwidth", "name": "HBM", "rate": 10.0, "unit": "B/s"},
        {"kind": "bandwidth", "name": "L2", "rate": 40.0, "unit": "B/s"},
    ]
    assumptions = [
        {"what": "tiny memory.bandwidth", "value": "10 B/s", "basis": "assumed",
         "source": "tiny datasheet", "note": "a guess"}
    ]  # fmt: skip
    return {
        "headline": table(headline, {}),
        "memory": table(memory, {"bytes": "B"}),
        "capacity": table(capacity, {}),
        "ops": table([_op(row) for row in OPS], {"seconds": "s"}, basis="datasheet"),
        "what_if": table(what_if, {}),
        "batch_curve": table(
            curve, {"ttft_s": "s", "tpot_s": "s", "throughput_tok_s": "token/s"}, basis="datasheet"
        ),
        "roofs": table([{**row, "basis": "datasheet", "source": "tiny"} for row in roofs], {}),
        "assumptions": table(assumptions, {}),
    }


def _result(free: float) -> Result:
    bandwidth = Derivation("BW", 10.0, "B/s", source="tiny datasheet", basis="datasheet")
    step = Derivation(
        "step", 250.0, "s", "sum of ops", "200 s + 50 s", (bandwidth,), note="a floor"
    )
    ttft = Derivation("TTFT", 250.0, "s", "1 · step", "1 · 250 s", (step,), basis="datasheet")
    latency = Derivation("latency", 320.0, "s", "TTFT + TPOT", "250 s + 70 s", (ttft,))
    return Result(
        kind="analyze",
        tables=_tables(free),
        derivations={"ttft": ttft, "latency": latency},
        notes=("Counts are of a causal kernel.",),
        metadata={
            "version": "1.2.3",
            "model": "tiny-1b",
            "gpu": "tiny",
            "gpu_title": "Tiny GPU",
            "gpus": 2,
            "tp": 2,
            "batch": 4,
            "prompt": 2048,
            "output": 256,
            "basis": "datasheet",
            "fits": free >= 0,
            "summary": ("Fits with room.", "Decode is bound by memory."),
            "command": "roofline analyze tiny-1b --gpu tiny",
        },
    )


@pytest.fixture
def result() -> Result:
    """A deployment that fits, with 20 bytes free."""
    return _result(20.0)


@pytest.fixture
def overflowing() -> Result:
    """The same with 50 bytes too much."""
    return _result(-50.0)


KNOWN = {
    # phase, op: seconds, low, high, basis
    ("prefill", "gate"): (250.0, 200.0, 312.5, "interpolated"),
    ("prefill", "norm"): (50.0, 50.0, 50.0, "datasheet"),
    ("decode", "gate"): (40.0, 20.0, 80.0, "transferred"),
    ("decode", "attention"): (32.0, 16.0, 64.0, "extrapolated"),  # faster than its roof
    ("decode", "all-reduce"): (5.0, 4.0, 6.25, "interpolated"),  # half of it is hidden
    ("decode", "quantise-gate"): (0.0, 0.0, 0.0, "interpolated"),  # in the product
}


def _predicted(row: dict[str, Any]) -> dict[str, Any]:
    seconds, low, high, basis = KNOWN[row["phase"], row["op"]]
    roof = max(row["compute_s"], row["memory_s"], row["wire_s"])
    whole = sum(known[0] for (phase, _), known in KNOWN.items() if phase == row["phase"])
    bounds = {"low_s": low, "high_s": high, "roof_s": roof, "basis": basis}
    return {**row, "seconds": seconds, "share": seconds / whole, **bounds}


def _calibrated() -> Result:
    bare = _result(20.0)
    quantise = _op({"phase": "decode", "op": "quantise-gate", "kind": "pointwise", "flops": 0.0,
                    "hbm_bytes": 30.0})  # fmt: skip
    ops = [_predicted(row) for row in (*bare.tables["ops"].rows(), quantise)]
    metrics = (
        ("ttft_s", 300.0, 240.0, 375.0, 250.0, "s", "datasheet"),
        ("tpot_s", 77.0, 38.5, 154.0, 70.0, "s", "transferred"),
        ("throughput_tok_s", 0.125, 0.1, 0.2, 0.25, "token/s", "datasheet"),
    )
    names = ("metric", "value", "low", "high", "roof", "unit", "basis")
    headline = [{**dict(zip(names, row, strict=True)), "meaning": ""} for row in metrics]
    curve = []
    for row in bare.tables["batch_curve"].rows():
        bands = {
            f"{key}_{end}": row[key] * factor
            for key in ("ttft_s", "tpot_s", "throughput_tok_s")
            for end, factor in (("low", 0.5), ("high", 2.0))
        }
        curve.append({**row, **bands})
    columns = ("kernel", "of", "measured on", "note", "source", "basis", "operators", "prefill",
               "decode")  # fmt: skip
    kernels = [
        ("gemm bf16", "vllm", "tiny", "", "8 rows", "interpolated", "gate", 0.8, 0.5),
        ("", "", "", "nothing like it", "", "datasheet", "norm", 0.2, 0.0),
    ]
    units = {name: column.unit for name, column in bare.tables["ops"].columns.items()}
    return replace(
        bare,
        tables={
            **bare.tables,
            "headline": table(headline, {}),
            "ops": table(ops, units),
            "batch_curve": table(
                curve, {"ttft_s": "s", "tpot_s": "s", "throughput_tok_s": "token/s"}
            ),
            "kernels": table([dict(zip(columns, row, strict=True)) for row in kernels], {}),
        },
        metadata={**bare.metadata, "basis": "calibrated", "calibration": "tiny-kernels"},
    )


@pytest.fixture
def predicted() -> Result:
    """The same deployment as measured kernels predict it."""
    return _calibrated()


@pytest.fixture(params=["result", "predicted"])
def either(request: pytest.FixtureRequest) -> Result:
    """At datasheet rates, and as measured kernels predict."""
    found: Result = request.getfixturevalue(request.param)
    return found
