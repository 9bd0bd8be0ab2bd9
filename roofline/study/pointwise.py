"""Points of a lane priced one by one: what has no table for all of its points.

Those are batches that decode speculatively, several answers or beams of each prompt, pools that
prefill beside pools that decode, and an offload that follows the batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.layout import parse
from roofline.cost.memory import MemoryBudget
from roofline.cost.work import Array
from roofline.errors import LayoutError, RooflineError
from roofline.records import replace
from roofline.serving import room
from roofline.serving import speculative as drafting
from roofline.serving.acceptance import mean_rounds
from roofline.serving.disaggregated import disaggregated
from roofline.serving.draft_trees import chain
from roofline.serving.ffn_pools import attention_of, ratios
from roofline.serving.phases import LIMITS
from roofline.serving.pools import PoolTimes
from roofline.serving.rounds import sheet
from roofline.serving.static import CENTRAL, OpTime, lone_prompt, static_batch
from roofline.serving.workload import Workload
from roofline.study.scenario.scenario import SliceDeployment
from roofline.study.sweep import points as tabular
from roofline.study.sweep.columns import SPREADS, FigureColumns, price, token_price
from roofline.study.sweep.prices import priced, within
from roofline.table import BASES
from roofline.units import MILLION

FIGURES = (
    "gpus",
    *SPREADS,
    "throughput_per_gpu_tok_s",
    "joule_per_mtok",
    "memory_bytes",
    "free_bytes",
    "decode_bound",
    "prefill_bound",
    "basis",
)
"""Figures of a point, beside those with the ends of their intervals."""


def points(lane: SliceDeployment, numbers: Mapping[str, Array]) -> dict[str, NDArray[Any]]:
    """Columns of a lane's points, from ``batch``, ``prompt`` and ``output``. [1] [token] [token]

    Figures, ``fits``, ``decodes``, and in ``limit`` what rules a point out before any figure does.
    """
    assert lane.deployment is not None
    every = list(_each(lane, lane.deployment, numbers))
    names = {name for figures, _ in every for name in figures}
    out: dict[str, NDArray[Any]] = {
        name: np.array([figures.get(name, np.nan) for figures, _ in every]) for name in names
    }
    out["limit"] = np.array([limit for _, limit in every], "U32")
    out["fits"] = out["limit"] == ""
    out["decodes"] = (numbers["output"] > 1.0) & (not lane.deployment.architecture.is_encoder)
    return out


def _each(
    lane: SliceDeployment, deployment: Deployment, numbers: Mapping[str, Array]
) -> Iterator[tuple[Mapping[str, float], str]]:
    """Figures of each point, and what rules it out."""
    devices = lane.labels.get("gpus")
    bare = {} if devices is None else {"gpus": float(devices)}
    inside = within(deployment.architecture, numbers["prompt"], numbers["output"])
    lengths = zip(*(numbers[name].astype(int).tolist() for name in tabular.AXES), strict=True)
    for fine, (batch, prompt, output) in zip(inside, lengths, strict=True):
        try:
            yield _point(lane, batch, prompt, output) if fine else (bare, "context")
        except LayoutError:
            yield bare, "layout"
        except RooflineError:
            yield bare, "technique"


def why(lane: SliceDeployment, batch: int, prompt: int, output: int) -> str:
    """Why a configuration cannot be priced, in a sentence; empty if it can."""
    try:
        _point(lane, batch, prompt, output)
    except RooflineError as error:
        return f"{error.message}; {error.hint}"
    return ""


def _point(
    lane: SliceDeployment, batch: int, prompt: int, output: int
) -> tuple[Mapping[str, float], str]:
    """Figures of a point, and whether memory rules it out."""
    technique, deployment = lane.technique, lane.deployment
    assert deployment is not None
    answer = 1 if deployment.architecture.is_encoder else output
    together = min(technique.prefill_batch, batch)
    work = Workload(
        batch, prompt, answer, together, technique.prefix_hit, technique.kv_cache, technique.samples
    )
    if lane.prefill is not None:
        figures, fits = _pools(deployment, lane.prefill, work, lane)
    elif lane.drafting is not None:
        figures, fits = _drafted(deployment, work, lane)
    elif technique.branched:
        figures, fits = _branched(deployment, work, lane)
    else:
        figures, fits = _alone(deployment, work, lane)
    return figures, "" if fits else "memory"


def _columns(deployment: Deployment, work: Workload, lane: SliceDeployment) -> FigureColumns:
    """Figures of one batch, as a sweep has them of all points of a lane."""
    lengths = {"batch": work.batch, "prompt": work.prompt, "output": work.output}
    batch, prompt, output = (tabular.Axis.of([float(each)]) for each in lengths.values())
    single = tabular.SweepSlice(
        deployment,
        tabular.Axes(batch, prompt, output, points=1),
        prefill_batch=work.prefill_batch,
        prefix_hit=work.prefix_hit,
        kv_cache=work.kv_cache,
        utilization=lane.technique.memory_utilization,
    )
    return price(priced(single), {name: np.array([each]) for name, each in lengths.items()})


def _alone(
    deployment: Deployment, work: Workload, lane: SliceDeployment
) -> tuple[dict[str, float], bool]:
    if deployment.offload.least:
        try:
            deployment = room.enough(deployment, work, lane.technique.memory_utilization)
        except LayoutError:
            deployment = replace(deployment, offload=replace(deployment.offload, weights=1.0))
    found = _columns(deployment, work, lane)
    ends = [f"{name}_{end}" for name in SPREADS for end in ("low", "high")]
    names = [*FIGURES, *(ends if deployment.calibration is not None else ())]
    return {name: float(found[name][0]) for name in names}, bool(found["fits"][0])


def _drafted(
    deployment: Deployment, work: Workload, lane: SliceDeployment
) -> tuple[dict[str, float], bool]:
    assert lane.drafting is not None
    draft, share = lane.drafting.draft, lane.technique.memory_utilization
    drafting.check(deployment, draft, work)
    tree = chain(lane.drafting.acceptance, lane.drafting.length)
    rounds = sheet(draft, deployment, work, [tree], np.array([float(work.batch)]))
    rates, slower = lane.drafting.acceptance, 1.0
    if rates.spread:  # mean over requests
        slower = tree.tokens * mean_rounds(rates, tree.depth)
    plain = _columns(deployment, work, lane)
    alone = replace(work, batch=1, prefill_batch=0)
    prompts = {
        "ttft_s": drafting.prefill_of(draft, deployment, work),
        "ttft_idle_s": drafting.prefill_of(draft, deployment, alone),
    }

    def figures(at: float) -> FigureColumns:
        """So many standard deviations from the median; both phases go together."""
        wide = np.exp(at * plain["ttft_log_sd"])
        times = {name: plain[name] * wide + span.at(at) for name, span in prompts.items()}
        return plain.at(**times, gap_s=np.array([slower * rounds.round(deviations=at).tpot_s]))

    middle, memory = figures(0.0), drafting.memory_of(deployment, tree, work, share)
    free = memory.free - sum(drafting.taken(deployment, draft, tree, work))
    words = {name: plain[name][0] for name in ("decode_bound", "prefill_bound", "basis")}
    out = {name: float(middle[name][0]) for name in FIGURES}
    out |= words | _memory(memory, free)
    if deployment.calibration is not None:
        out |= _ends([figures(at) for at in (-CENTRAL, CENTRAL)])
    return out, free >= 0


def _branched(
    deployment: Deployment, work: Workload, lane: SliceDeployment
) -> tuple[dict[str, float], bool]:
    """Answers or beams of each prompt, as a static batch, which has no steady state."""
    share = lane.technique.memory_utilization
    found = static_batch(deployment, work, utilization=share)
    alone = lone_prompt(deployment, work)

    def figures(at: float) -> dict[str, float]:
        """So many standard deviations from the median."""
        latency = found.latency_s * float(np.exp(at * found.latency_log_sd))
        tpot = found.tpot_s * float(np.exp(at * found.tpot_log_sd))
        rate = found.answers * work.output / latency
        return {
            "gpus": float(deployment.devices),
            "ttft_idle_s": alone.ttft_s * float(np.exp(at * alone.ttft_log_sd)),
            "ttft_s": found.ttft_s * float(np.exp(at * found.ttft_log_sd)),
            "tpot_s": tpot or np.nan,
            "tpot_steady_s": np.nan,
            "latency_s": latency,
            "throughput_tok_s": rate,
            "throughput_per_gpu_tok_s": rate / deployment.devices,
            "user_tok_s": 1.0 / tpot if tpot else np.nan,
            "usd_per_mtok": float(np.ravel(token_price(deployment, np.array([rate])))[0]),
            "joule_per_mtok": deployment.watts / rate * MILLION,
        }

    every = (*found.prefill.values(), *found.decode.values())
    words = {
        "decode_bound": _bound(found.decode),
        "prefill_bound": _bound(found.prefill),
        "basis": max(BASES.index(op.basis) for op in every),
    }
    out = figures(0.0) | words | _memory(found.memory, found.memory.free)
    if found.calibrated:
        out |= _ends([figures(at) for at in (-CENTRAL, CENTRAL)])
    return out, found.memory.fits


def _pools(
    decode: Deployment, prefill: Deployment, work: Workload, lane: SliceDeployment
) -> tuple[dict[str, float], bool]:
    """Both pools in steady state, as many instances of each as balance."""
    pools = lane.technique.disaggregation
    assert pools is not None
    share = lane.technique.memory_utilization
    if pools.ffn:
        layout, groups = attention_of(decode.layout)
        best, *_ = ratios(
            replace(decode, layout=layout),
            parse(pools.ffn),
            work,
            groups=groups,
            microbatches=pools.microbatches,
            utilization=share,
            over=pools.ffn_over,
        )
        decode = best.deployment
    both = disaggregated(
        prefill, decode, work, wires=pools.over, overlapped=pools.overlapped, utilization=share
    )

    def figures(phases: PoolTimes) -> dict[str, float]:
        rate = both.tok_s(phases)
        return {
            "gpus": float(both.used),
            "ttft_idle_s": phases.ttft_s,
            "ttft_s": phases.ttft_s,
            "tpot_s": phases.tpot_s or np.nan,
            "tpot_steady_s": phases.tpot_s or np.nan,
            "latency_s": phases.latency_s,
            "throughput_tok_s": rate,
            "throughput_per_gpu_tok_s": rate / both.used,
            "user_tok_s": 1.0 / phases.tpot_s if phases.tpot_s else np.nan,
            "usd_per_mtok": both.usd_per_mtok(phases) or np.nan,
            "joule_per_mtok": both.joule_per_mtok(phases),
        }

    ends = [figures(phases) for phases in (both.fast, both.slow) if phases is not None]
    held = (both.prefill_memory, both.decode_memory, both.ffn_memory)
    free = min(memory.free for memory in held if memory is not None)
    words = {
        "decode_bound": _bound(both.decode.decode),
        "prefill_bound": _bound(both.prefill.prefill),
        "basis": max(
            BASES.index(op.basis)
            for op in (*both.prefill.prefill.values(), *both.decode.decode.values())
        ),
    }
    out = figures(both.overlap) | _memory(both.decode_memory, free) | words
    return out | (_ends(ends) if ends else {}), both.fits


def _memory(memory: MemoryBudget, free: float) -> dict[str, float]:
    return {"memory_bytes": memory.budget - free, "free_bytes": free}


def _ends(ends: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Ends of the central 80 % of figures that have them."""
    out: dict[str, float] = {}
    for name in SPREADS:
        low, high = sorted(float(np.ravel(end[name])[0]) for end in ends)
        out |= {f"{name}_low": low, f"{name}_high": high}
    return out


def _bound(ops: Mapping[str, OpTime]) -> float:
    """Place in `LIMITS` of what binds most of a phase; −1 for no phase."""
    took: dict[str, float] = {}
    for op in ops.values():
        took[op.bound] = took.get(op.bound, 0.0) + op.seconds
    return LIMITS.index(max(took, key=lambda name: took[name])) if took else -1.0
