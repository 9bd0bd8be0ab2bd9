"""What each mode of a benchmark measures, from tables of prices and an engine's constants.

``bs1_prefill``, ``bs1_decode``
    One sequence: TTFT; the mean time between its tokens.
``static_batch``
    A batch that starts and ends together: the first token of all, the last of all.
``steady_concurrency``
    Clients in a closed loop: means over their requests.
``steady_rate``
    Requests at a rate, whether others are answered or not: means over them.
``offline_max``, ``sharegpt_max``
    All requests at once, as many in flight as fit: the steady rate; where it is known how many
    there are, until the last of them is answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from roofline.bench.end_to_end import tables as grid
from roofline.bench.end_to_end.cases import Row
from roofline.bench.end_to_end.driving import Driven, arrivals, lengths
from roofline.bench.end_to_end.engines import Engine
from roofline.bench.end_to_end.tables import Tables
from roofline.cost.work import Array

ORDER: Final = {"decode-first": 0, "whole-prompts": 1, "prefill-first": 2}
"""Numbers of the policies in the loop."""
CLOSED: Final = "steady_concurrency"
OPEN: Final = "steady_rate"
FULL: Final = frozenset({"offline_max", "sharegpt_max"})
SINGLE: Final = FULL | {CLOSED, OPEN}
"""Modes whose requests are measured one by one, and not as a batch."""
SENT: Final = 1000
"""Requests at a rate where nobody says how many."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Constants of an engine on a device. Times in seconds, gains as factors.

    Attributes
    ----------
    step, sequence, prefill, request, serial, front, mixture
        As `roofline.bench.end_to_end.engines.CONSTANTS`. [s]
    decode_gain, prefill_gain
        On the kernels of decoding and of prompts. [1]
    classes
        On each class of `roofline.bench.end_to_end.tables.CLASSES`. [1]
    attention
        On attention. [1]
    """

    step: float = 0.0
    sequence: float = 0.0
    prefill: float = 0.0
    request: float = 0.0
    serial: float = 0.0
    front: float = 0.0
    mixture: float = 0.0
    decode_gain: float = 1.0
    prefill_gain: float = 1.0
    classes: tuple[float, ...] = (1.0,) * len(grid.CLASSES)
    attention: float = 1.0


def predict(
    row: Row, table: Tables, costs: Costs, engine: Engine, how: Driven
) -> Mapping[str, float]:
    """Every metric of a row: ``ttft_s``, ``tpot_s``, ``latency_s``, ``throughput_tok_s``.

    Parameters
    ----------
    row
        What was asked.
    table, costs, engine
        Prices of the deployment's steps, what the engine adds, and how it fills them.
    how
        How the clients were driven, where there are any.
    """
    if row.mode in FULL and not row.requests:
        return _saturated(row, table, costs, engine)
    served = requests(row, table, costs, engine, how)
    if row.mode not in SINGLE:
        return _batch(row, float(served.ttft.max()), served.seconds)
    tpot = served.tpot
    return {
        "ttft_s": float(served.ttft.mean()),
        "tpot_s": float(tpot.mean()) if len(tpot) else 0.0,
        "latency_s": float(served.latency.mean()),
        "throughput_tok_s": throughput(
            row, float(served.prompts.sum()), float(served.answers.sum()), served.seconds
        ),
    }


@dataclass(frozen=True, slots=True)
class Served:
    """Requests of a row, in order of arrival.

    Attributes
    ----------
    prompts, answers
        Lengths. [token]
    ttft, latency
        From arrival to the first and to the last token. [s]
    seconds
        Until the last token of all. [s]
    """

    prompts: grid.Integers
    answers: grid.Integers
    ttft: Array
    latency: Array
    seconds: float

    @property
    def tpot(self) -> Array:
        """(latency - TTFT) / (tokens - 1) of each request with several tokens. [s]"""
        several = self.answers > 1
        gaps: Array = (self.latency - self.ttft)[several] / (self.answers[several] - 1)
        return gaps

    @property
    def itl(self) -> float:
        """The same of all requests together, so that long answers count more. [s]"""
        gaps = float((self.answers - 1).sum())
        return float((self.latency - self.ttft).sum()) / gaps if gaps else 0.0


def requests(row: Row, table: Tables, costs: Costs, engine: Engine, how: Driven) -> Served:
    """Each request of a row that is served in the loop.

    Parameters
    ----------
    row, table, costs, engine, how
        As for `predict`.
    """
    apart = int(row.case.layout.dp)  # limits hold for each group with sequences of its own
    clients, most = int(row.batch), engine.most * apart
    sent = np.zeros(0)
    if row.mode == OPEN or row.mode in FULL:
        number = clients = int(row.requests) or SENT
        sent = arrivals(row.rate, row.cv, number) if row.mode == OPEN else sent
    elif row.mode == CLOSED:
        number = max(int(clients * how.rounds), 1)
    else:
        number = clients
    if row.mode == CLOSED and how.waiting:
        clients, most = clients + how.waiting, clients
    elif row.mode not in SINGLE:
        most = max(clients, 1)
    isl, osl = lengths(row.isl, row.osl, number, how if row.mode in SINGLE else Driven())
    filling = replace(engine, budget=engine.budget * apart)
    handing = replace(costs, front=costs.front / apart)
    if row.mode in FULL:
        handing = replace(handing, serial=0.0)  # all are in the engine's hands before it starts
    first, last, end = _served(isl, osl, clients, most, table, handing, filling, sent)
    delay = 0.0
    if row.mode in SINGLE:
        mixture = bool(table.body[0, grid.CLASSES.index("experts")] > 0)
        delay = costs.request + costs.mixture * mixture
    return Served(isl, osl, first + delay, last + delay, float(end))


def _served(
    isl: grid.Integers,
    osl: grid.Integers,
    clients: int,
    most: int,
    table: Tables,
    costs: Costs,
    engine: Engine,
    sent: Array | None = None,
) -> tuple[Array, Array, float]:
    from roofline.bench.end_to_end.loop import serve

    classes = np.array(costs.classes)
    starts = np.zeros(clients) if sent is None or not len(sent) else sent
    found: tuple[Array, Array, float] = serve(
        isl,
        osl,
        clients,
        starts,
        grid.TOKENS,
        table.body @ classes,
        table.head @ classes,
        grid.COUNTS,
        grid.CONTEXTS,
        table.decoding * costs.attention,
        grid.PROMPTS,
        table.prompt * costs.attention,
        np.array(
            [
                costs.step,
                costs.sequence,
                costs.prefill,
                costs.front,
                costs.serial,
                costs.decode_gain,
                costs.prefill_gain,
            ]
        ),
        ORDER[engine.policy],
        engine.budget,
        most,
        table.room,
        engine.reserved,
    )
    return found


def _batch(row: Row, ttft: float, latency: float) -> Mapping[str, float]:
    """Metrics of sequences that start and end together."""
    tpot = (latency - ttft) / max(row.osl - 1.0, 1.0)
    spent = tpot * row.osl if row.mode == "bs1_decode" else latency
    return {
        "ttft_s": ttft,
        "tpot_s": tpot,
        "latency_s": latency,
        "throughput_tok_s": throughput(row, row.batch * row.isl, row.batch * row.osl, spent),
    }


def throughput(row: Row, prompts: float, answers: float, seconds: float) -> float:
    """Tokens that a row counts, of all replicas or of one device, each second. [token/s]

    Parameters
    ----------
    row
        Says which are counted, and whose.
    prompts, answers
        Tokens of a replica. [token]
    seconds
        In which they were done. [s]
    """
    counted = {"input": prompts, "output": answers, "input+output": prompts + answers}
    whole = counted[row.counts] * row.replicas / seconds
    return whole / row.devices if row.scope == "per_gpu" else whole


def _saturated(row: Row, table: Tables, costs: Costs, engine: Engine) -> Mapping[str, float]:
    """The steady state with as many sequences as fit.

    Each step decodes all of them, and prefills as many prompts as answers end in it.
    """
    from roofline.bench.end_to_end.loop import line, plane

    classes = np.array(costs.classes)
    body, head = table.body @ classes, table.head @ classes
    prompt, decoding = table.prompt * costs.attention, table.decoding * costs.attention
    need = row.isl + engine.reserved * row.osl
    limit = float(engine.most * row.case.layout.dp)
    most = max(min(np.floor(table.room / need), limit), 1.0)
    most = min(most, row.batch) if row.batch else most
    alone = line(grid.TOKENS, body, most)
    attended = plane(grid.COUNTS, grid.CONTEXTS, decoding, most, row.isl + 0.5 * row.osl)
    decode = costs.decode_gain * (alone + line(grid.TOKENS, head, most) + attended)
    together = max(np.ceil(min(engine.budget, grid.TOKENS[-1]) / row.isl), 1.0)
    both = line(grid.TOKENS, body, most + together * row.isl)
    attend = line(grid.PROMPTS, prompt, row.isl) - prompt[0] + prompt[0] / together
    fill = costs.prefill_gain * ((both - alone) / together + attend) + costs.prefill / together
    # The front end is a bound of its own: a request, then each token of its answer.
    spent = decode + costs.step + costs.sequence * most + fill * most / row.osl
    spent = max(spent, costs.front * most / row.case.layout.dp)
    return {
        "ttft_s": fill + decode + costs.request,
        "tpot_s": spent,
        "latency_s": spent * row.osl,
        "throughput_tok_s": throughput(row, most / row.osl * row.isl, most, spent),
    }
