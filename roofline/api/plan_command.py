"""Command that simulates what a plan recommends, with the same requests and the same figures."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roofline.study.plan.plan import Plan


def simulation(
    plan: Plan, model: str, asked: Mapping[str, Any], formats: Mapping[str, tuple[str | None, str]]
) -> str:
    """A ``roofline simulate`` line whose figures are those of the recommended deployment.

    Empty where nothing fits, where two pools are recommended, which no such line has words for,
    and where something was asked for by an object, which none can name.

    Args:
        plan, model: Plan, and the name of the network.
        asked: Options and their values as they were given; those that are None or empty are left
            out.
        formats: Formats of weights and cache by name of a kind, as they were given.
    """
    if plan.best is None or plan.best.option.wires is not None:
        return ""
    (pool,) = plan.best.option.pools
    node = pool.kind.base.node
    weights, cache = formats[pool.kind.name]
    words = {
        "--gpu": pool.kind.gpu,
        "--node": node.name,
        "--gpus": pool.gpus,
        "--layout": pool.candidate.layout.spelled,
        "--max-sequences": pool.server.max_sequences,
        "--token-budget": pool.server.token_budget,
        "--weights": weights,
        "--kv": cache,
        **asked,
    }
    given = {flag: value for flag, value in words.items() if value is not None and value != ""}
    if not all(isinstance(value, (str, int, float, Path)) for value in given.values()):
        return ""
    flags = [
        part
        for flag, value in given.items()
        for part in ([flag] if value is True else [flag, str(value)])
    ]
    return shlex.join(["roofline", "simulate", model, *flags])
