"""A small plan, and what a command printed of it."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

SMALL = (
    "plan llama-3.1-8b --calibration none --prompt 400 --output 20..40 --requests 600 "
    "--slo ttft=200ms,tpot=20ms"
)


class Ran:
    """Outcome of a command."""

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


def limited(objectives: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Latency by objective. [s]"""
    return {row["objective"]: row["value_s"] for row in objectives}
