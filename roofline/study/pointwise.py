"""Points of a lane priced one by one: static batches, and what has no table of its own.

Those are batches that decode speculatively, pools that prefill beside pools that decode, and an
offload that follows the batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.memory import Memory
from roofline.cost.work import Array
from roofline.errors import LayoutError, RooflineError
from roofline.serving import drafting, room
from roofline.serving.disaggregated import disaggregated
from roofline.serving.draft_trees import chain
from roofline.serving.phases import LIMITS, first_tokens
from roofline.serving.pools import Phases
from roofline.serving.rounds import sheet
from roofline.serving.static import CENTRAL, OpTime, StaticBatch, static_batch
from roofline.serving.steady_columns import steady_columns
from roofline.serving.workload import Workload
from roofline.study.scenario.lane import Lane
from roofline.table import BASES
from roofline.units import MILLION, SECONDS_PER_HOUR

ENDED: Final = {
    "ttft_idle_s": "ttft",
    "ttft_s": "ttft",
    "tpot_steady_s": "tpot",
    "tpot_s": "tpot",
    "latency_s": "latency",
    "throughput_tok_s": "latency",
    "user_tok_s": "tpot",
    "usd_per_mtok": "latency",
}
"""Figures with intervals, and the time whose spread they have."""
PLACES: Final = {"decode_bound": LIMITS, "prefill_bound": LIMITS, "basis": BASES}
"""Words that are kept as their place in a list; −1 is none of them."""


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of one configuration; those not there are nan.

    Attributes
    ----------
    numbers, words
        By column.
    """

    numbers: Mapping[str, float]
    words: Mapping[str, str]


def points(lane: Lane, numbers: Mapping[str, Array]) -> dict[str, NDArray[Any]]:
    """Columns of the points of a lane.

    Parameters
    ----------
    lane
        What they are priced on.
    numbers
        Columns ``batch``, ``prompt`` and ``output``. [1] [token] [token]

    Returns
    -------
    dict
        Figures, ``fits``, ``decodes``, words as their places, and in ``limit`` what rules a point
        out before any figure does.
    """
    every = [
        point(lane, int(batch), int(prompt), int(output))
        for batch, prompt, output in zip(
            numbers["batch"], numbers["prompt"], numbers["output"], strict=True
        )
    ]
    names = {name for each in every for name in each.numbers}
    out: dict[str, NDArray[Any]] = {
        name: np.array([each.numbers.get(name, np.nan) for each in every]) for name in names
    }
    for name, words in PLACES.items():
        out[name] = np.array([_place(each.words.get(name, ""), words) for each in every])
    out["limit"] = np.array([each.words["limit"] for each in every], "U32")
    out["fits"] = out["limit"] == ""
    answers = lane.deployment is not None and not lane.deployment.architecture.is_encoder
    out["decodes"] = (numbers["output"] > 1.0) & answers
    return out


def _place(word: str, words: Sequence[str]) -> int:
    return words.index(word) if word else -1


def point(lane: Lane, batch: int, prompt: int, output: int) -> Point:
    """Figures of one configuration; what rules it out is its limit."""
    assert lane.deployment is not None
    if _too_long(lane.deployment, prompt, output):
        return _impossible(lane, "context")
    try:
        return _point_of(lane, lane.deployment, batch, prompt, output)
    except LayoutError:
        return _impossible(lane, "layout")
    except RooflineError:
        return _impossible(lane, "technique")


def why(lane: Lane, batch: int, prompt: int, output: int) -> str:
    """Why a configuration cannot be priced, in a sentence; empty if it can."""
    assert lane.deployment is not None
    try:
        _point_of(lane, lane.deployment, batch, prompt, output)
    except RooflineError as error:
        return f"{error.message}; {error.hint}"
    return ""


def _point_of(lane: Lane, deployment: Deployment, batch: int, prompt: int, output: int) -> Point:
    technique = lane.technique
    answer = 1 if deployment.architecture.is_encoder else output
    together = min(technique.prefill_batch, batch)
    work = Workload(batch, prompt, answer, together, technique.prefix_hit, technique.kv_cache)
    if lane.prefill is not None:
        return _pools(deployment, lane.prefill, work, lane)
    if lane.drafting is not None:
        return _drafted(deployment, work, lane)
    return _alone(deployment, work, lane)


def _impossible(lane: Lane, limit: str) -> Point:
    devices = lane.labels.get("gpus")
    return Point({} if devices is None else {"gpus": float(devices)}, {"limit": limit})


def _too_long(deployment: Deployment, prompt: int, output: int) -> bool:
    most = deployment.architecture.max_context
    answer = 0 if deployment.architecture.is_encoder else output
    return most is not None and prompt + answer > most


def _alone(deployment: Deployment, work: Workload, lane: Lane) -> Point:
    share = lane.technique.memory_utilization
    if deployment.offload.least:
        try:
            deployment = room.enough(deployment, work, share)
        except LayoutError:
            deployment = replace(deployment, offload=replace(deployment.offload, weights=1.0))
    batch = static_batch(deployment, work, utilization=share)
    idle = _idle(deployment, work)
    figures = _figures(batch, idle, batch.ttft_s, batch.tpot_s)
    spreads = {"ttft": batch.ttft_log_sd, "tpot": batch.tpot_log_sd}
    spreads["latency"] = batch.latency_log_sd

    def end(at: float) -> dict[str, float]:
        return {name: figures[name] * exp(at * spreads[time]) for name, time in ENDED.items()}

    ends = [end(-CENTRAL), end(CENTRAL)] if batch.calibrated else []
    free = batch.memory.free
    words = _words(batch, room.fits(deployment, batch.memory))
    return _point(figures | _memory(batch.memory, free), ends, words)


def _drafted(deployment: Deployment, work: Workload, lane: Lane) -> Point:
    assert lane.drafting is not None
    draft, share = lane.drafting.draft, lane.technique.memory_utilization
    drafting.check(deployment, draft, work)
    tree = chain(lane.drafting.acceptance, lane.drafting.length)
    plain = static_batch(deployment, work, utilization=share)
    priced = sheet(draft, deployment, work, [tree], np.array([float(work.batch)]))
    prompts = drafting.prefill_of(draft, deployment, work)

    alone = drafting.prefill_of(draft, deployment, replace(work, batch=1, prefill_batch=0))
    idle = _idle(deployment, work)

    def figures(at: float) -> dict[str, float]:
        wide = exp(at * plain.ttft_log_sd)
        first, ttft = idle * wide + float(alone.at(at)), plain.ttft_s * wide + float(prompts.at(at))
        return _figures(plain, first, ttft, priced.round(deviations=at).tpot_s)

    ends = [figures(-CENTRAL), figures(CENTRAL)] if plain.calibrated else []
    memory = drafting.memory_of(deployment, tree, work, share)
    free = memory.free - sum(drafting.taken(deployment, draft, tree, work))
    words = _words(plain, free >= 0)
    return _point(figures(0.0) | _memory(memory, free), ends, words)


def _pools(decode: Deployment, prefill: Deployment, work: Workload, lane: Lane) -> Point:
    """Both pools in steady state, as many instances of each as balance."""
    pools = lane.technique.disaggregation
    assert pools is not None
    priced = disaggregated(
        prefill,
        decode,
        work,
        wires=pools.over,
        overlapped=pools.overlapped,
        utilization=lane.technique.memory_utilization,
    )

    def figures(phases: Phases) -> dict[str, float]:
        rate = priced.tok_s(phases)
        return {
            "gpus": float(priced.used),
            "ttft_idle_s": phases.ttft_s,
            "ttft_s": phases.ttft_s,
            "tpot_s": phases.tpot_s or np.nan,
            "tpot_steady_s": phases.tpot_s or np.nan,
            "latency_s": phases.latency_s,
            "throughput_tok_s": rate,
            "throughput_per_gpu_tok_s": rate / priced.used,
            "user_tok_s": _inverse(phases.tpot_s),
            "usd_per_mtok": priced.usd_per_mtok(phases) or np.nan,
            "joule_per_mtok": priced.joule_per_mtok(phases),
        }

    ends = [figures(phases) for phases in (priced.fast, priced.slow) if phases is not None]
    held, free = priced.decode_memory, min(priced.decode_memory.free, priced.prefill_memory.free)
    first = priced.prefill
    words = _words(replace(priced.decode, prefill=first.prefill), priced.fits)
    return _point(figures(priced.overlap) | _memory(held, free), ends, words)


def _idle(deployment: Deployment, work: Workload) -> float:
    """TTFT of one prompt on an idle server. [s]"""
    return float(first_tokens(deployment, 1.0, float(work.prompt), float(work.cached)).seconds)


def _figures(batch: StaticBatch, idle: float, ttft: float, tpot: float) -> dict[str, float]:
    """Figures of a batch that takes so long, and of one prompt on an idle server."""
    work, gpu, devices = batch.workload, batch.deployment.node.gpu, batch.devices
    latency = ttft + tpot * (work.output - 1)
    rate = work.batch * work.output / latency
    price = gpu.usd_per_hour * devices / SECONDS_PER_HOUR / rate * MILLION
    arrival = batch.deployment.engine_costs.arrival_s
    steady = steady_columns(
        decode_s=tpot,
        first_s=idle,
        prompt_s=(ttft - arrival) / work.batch,
        arrival_s=arrival,
        batch=float(work.batch),
        output=float(work.output),
    )
    return {
        "gpus": float(devices),
        "ttft_idle_s": idle,
        "ttft_s": ttft,
        "tpot_s": tpot or np.nan,
        "tpot_steady_s": float(steady.tpot_s) if tpot and work.kv_cache else np.nan,
        "latency_s": latency,
        "throughput_tok_s": rate,
        "throughput_per_gpu_tok_s": rate / devices,
        "user_tok_s": _inverse(tpot),
        "usd_per_mtok": price or np.nan,
        "joule_per_mtok": gpu.tdp_w * devices / rate * MILLION,
    }


def _inverse(seconds: float) -> float:
    """A rate of what takes so long; none of what is never done."""
    return 1.0 / seconds if seconds else np.nan


def _memory(memory: Memory, free: float) -> dict[str, float]:
    return {"memory_bytes": memory.budget - free, "free_bytes": free}


def _point(
    figures: dict[str, float], ends: Sequence[Mapping[str, float]], words: Mapping[str, str]
) -> Point:
    """With the ends of the central 80 %; rates of the datasheet have none."""
    for name in ENDED if ends else ():
        low, high = sorted(end[name] for end in ends)
        figures |= {f"{name}_low": low, f"{name}_high": high}
    return Point(figures, words)


def _words(batch: StaticBatch, fits: bool) -> dict[str, str]:
    ops = [*batch.prefill.values(), *batch.decode.values()]
    return {
        "decode_bound": _bound(batch.decode),
        "prefill_bound": _bound(batch.prefill),
        "basis": max((op.basis for op in ops), key=BASES.index),
        "limit": "" if fits else "memory",
    }


def _bound(ops: Mapping[str, OpTime]) -> str:
    """What binds the operators that take most of a phase together; empty for no phase."""
    took: dict[str, float] = {}
    for op in ops.values():
        took[op.bound] = took.get(op.bound, 0.0) + op.seconds
    return max(took, key=lambda name: took[name]) if took else ""
