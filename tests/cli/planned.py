"""A small plan, what a command printed of it, and its recommendation simulated."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import roofline
from roofline.table import Result

SMALL = (
    "plan llama-3.1-8b --calibration none --prompt 400 --output 20..40 --requests 600 "
    "--slo ttft=200ms,tpot=20ms"
)


class Ran:
    """What a command did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def result(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema"] == "roofline/result/1"
        assert document["command"] == "plan"
        result: dict[str, Any] = document["result"]
        return result


Command: TypeAlias = Callable[[str], Ran]


def rows(result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result["tables"][name]["rows"]
    return found


def simulated(result: dict[str, Any], draft: str = "", acceptance: str = "") -> Result:
    """The deployment that a plan of `SMALL` at 40 requests a second recommends, simulated."""
    (verdict,) = rows(result, "verdict")
    return roofline.simulate(
        "llama-3.1-8b",
        calibration="none",
        prompt=400,
        output="20..40",
        requests=600,
        rate=40.0,
        slo="ttft=200ms,tpot=20ms",
        gpus=verdict["gpus"],
        layout=verdict["layout"],
        max_sequences=verdict["max_sequences"],
        token_budget=verdict["token_budget"],
        draft=draft,
        acceptance=acceptance,
    )


def promised(objectives: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Latency by promise. [s]"""
    return {row["objective"]: row["value_s"] for row in objectives}
