"""What each mode of a benchmark measures, predicted from tables of prices and an engine's profile.

``bs1_prefill``, ``bs1_decode``: one sequence. ``static_batch``: a batch that starts and ends
together. ``steady_concurrency``: clients in a closed loop. ``offline_max``, ``sharegpt_max``: all
requests at once, as many in flight as fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.bench.end_to_end import tables as priced
from roofline.bench.end_to_end.cases import Row
from roofline.bench.end_to_end.tables import Tables
from roofline.cost.work import Array

POLICIES: Final = {"decode-first": 0, "whole-prompts": 1, "prefill-first": 2}


@dataclass(frozen=True, slots=True)
class Costs:
    """What an engine adds to its kernels, and how it fills a step."""

    step_s: float = 0.0
    sequence_s: float = 0.0
    prefill_s: float = 0.0
    front_s: float = 0.0
    serial_s: float = 0.0
    mixture_s: float = 0.0
    request_s: float = 0.0
    decode_gain: float = 1.0
    prefill_gain: float = 1.0
    policy: str = "decode-first"
    budget: int = 8192
    most: int = 1024
    reserved: float = 1.0
    dense: float = 1.0
    dense_start: float = 0.9
    experts: float = 1.0
    experts_start: float = 0.5
    wires: float = 1.0
    attention: float = 1.0


@dataclass(frozen=True, slots=True)
class Driven:
    """How a benchmark drove its clients."""

    rounds: float = 4.0
    shortest: float = 1.0
    longest: float = 1.0
    slots: bool = False


INFERENCEMAX: Final = Driven(10.0, 0.8, 1.0)
EQUAL: Final = Driven(4.0, 1.0)
VARIED: Final = Driven(10.0, 0.97, 1.03)
ONE_MORE: Final = Driven(10.0, 0.9, 1.1, True)


def lengths(row: Row, driven: Driven, number: int) -> tuple[Array, Array]:
    if driven.shortest == 1.0:
        return np.full(number, int(row.isl)), np.full(number, int(row.osl))
    draw = np.random.default_rng(0)
    low, high = driven.shortest, driven.longest
    return tuple(
        np.maximum(np.round(whole * draw.uniform(low, high, number)), 1).astype(np.int64)
        for whole in (row.isl, row.osl)
    )


def predict(row: Row, table: Tables, costs: Costs, driven: Driven) -> Mapping[str, float]:
    from roofline.bench.end_to_end.loop import serve

    gains = np.array([costs.dense, costs.dense_start, costs.experts, costs.experts_start, costs.wires])
    body, head = table.body @ gains, table.head @ gains
    clients = int(row.batch)
    if row.mode == "offline_max" or row.mode == "sharegpt_max":
        return saturated(row, table, body, head, costs)
    number = clients
    if row.mode == "steady_concurrency":
        number = int(clients * driven.rounds)
    else:
        driven = EQUAL
    most = costs.most
    if driven.slots:
        most, clients = clients, clients + 1
    isl, osl = lengths(row, driven, number)
    first, last, end = serve(
        isl,
        osl,
        clients,
        priced.TOKENS,
        body,
        head,
        priced.COUNTS,
        priced.CONTEXTS,
        table.decoding * costs.attention,
        priced.PROMPTS,
        table.prompt * costs.attention,
        np.array(
            [
                costs.step_s,
                costs.sequence_s,
                costs.prefill_s,
                costs.front_s,
                costs.serial_s,
                costs.decode_gain,
                costs.prefill_gain,
            ]
        ),
        POLICIES[costs.policy],
        costs.budget,
        most,
        table.room,
        costs.reserved,
    )
    if row.mode == "steady_concurrency":
        with np.errstate(all="ignore"):
            tpot = np.mean((last - first)[osl > 1] / (osl[osl > 1] - 1))
        return {
            "ttft_s": float(np.mean(first)) + costs.request_s + costs.mixture_s * bool(table.body[0, 2] > 0),
            "tpot_s": float(tpot),
            "latency_s": float(np.mean(last)) + costs.request_s,
            "throughput_tok_s": throughput(row, float(np.sum(isl)), float(np.sum(osl)), end),
        }
    ttft, latency = float(np.max(first)), float(end)
    tpot = (latency - ttft) / max(row.osl - 1, 1.0)
    whole = latency
    if row.mode == "bs1_decode":
        whole = tpot * row.osl
    return {
        "ttft_s": ttft,
        "tpot_s": tpot,
        "latency_s": latency,
        "throughput_tok_s": throughput(
            row, row.batch * row.isl, row.batch * row.osl, whole
        ),
    }


def throughput(row: Row, prompts: float, answers: float, seconds: float) -> float:
    tokens = {"input": prompts, "output": answers, "input+output": prompts + answers}[row.counts]
    whole = tokens * row.replicas / seconds
    return whole / row.devices if row.scope == "per_gpu" else whole


def saturated(row: Row, table: Tables, body: Array, head: Array, costs: Costs):
    from roofline.bench.end_to_end.loop import line, plane

    need = row.isl + costs.reserved * row.osl
    most = max(min(np.floor(table.room / need), float(costs.most)), 1.0)
    if row.batch:
        most = min(most, row.batch)
    mean = row.isl + 0.5 * row.osl
    new = most / row.osl * row.isl
    each = table.prompt * costs.attention
    alone = line(priced.TOKENS, body, most)
    decode = costs.decode_gain * (
        alone
        + line(priced.TOKENS, head, most)
        + plane(priced.COUNTS, priced.CONTEXTS, table.decoding * costs.attention, most, mean)
    )
    # Prompts are filled a budget at a time, with or without the others' tokens.
    steps = max(np.ceil(costs.budget / row.isl), 1.0)
    part = steps * row.isl
    fill = (line(priced.TOKENS, body, most + part) - alone) / steps
    fill += line(priced.PROMPTS, each, row.isl) - each[0] + each[0] / steps
    fill = costs.prefill_gain * fill + costs.prefill_s / steps
    spent = decode + costs.step_s + costs.sequence_s * most + fill * most / row.osl
    rate = most / spent  # answers' tokens of a replica, each second
    answers = rate * row.replicas
    tokens = {"output": 1.0, "input": row.isl / row.osl, "input+output": 1 + row.isl / row.osl}
    whole = answers * tokens[row.counts]
    return {
        "throughput_tok_s": whole / row.devices if row.scope == "per_gpu" else whole,
        "tpot_s": spent,
        "ttft_s": fill + decode + costs.request_s,
        "latency_s": spent * row.osl,
    }
