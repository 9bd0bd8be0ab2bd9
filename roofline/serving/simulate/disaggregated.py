"""Disaggregated serving simulated: prefill instances, an interconnect and decode instances.

Requests take turns at the prefill instances, and caches at the decode instances. A link carries
one cache after the other. Clients are answered by the decode instance: the first token comes with
its first step, so TTFT has the transfer in it. Answers of one token are the prefill's.

Source: DistServe, Zhong et al. 2024 (arXiv 2401.09670); Splitwise, Patel et al. 2024
(arXiv 2311.18677). Who answers: `roofline.serving.pools`.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.kv_transfer import Wires, slower, transfer
from roofline.serving.objectives import FinishedRequests
from roofline.serving.requests import Integers, Requests, part, picked_rows
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.run import check, simulate
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.server import Server

SETTLED: Final = 2.0**-10
"""Mean change of when clients ask, over their mean latency, from which on a loop is found. [1]"""


class InstancePool(Struct, frozen=True):
    """Equal instances."""

    prices: StepPrices
    server: Server
    """Prices and policy of each of them."""
    instances: int = 1
    """Number of instances. [1]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if self.instances < 1:
            raise InputError(f"a pool of {self.instances} instances", hint="give 1 or more")


class Handover(Struct, frozen=True):
    """Rates and latency of the two ends of a transfer."""

    send_s_per_token: float = 0.0
    receive_s_per_token: float = 0.0
    """Time of the links of an instance for each token of a prompt. [s]"""
    latency_s: float = 0.0
    """Time until the first byte arrives. [s]"""
    software_s: float = 0.0
    """Part of it that is an engine's own work. [s]"""

    def within(self, deviations: float) -> "Handover":
        """The same with software that takes so many deviations longer. [1]"""
        more = self.software_s * (slower(deviations) - 1.0)
        return replace(self, latency_s=self.latency_s + more)


class PooledRequests(FinishedRequests, frozen=True):
    """Requests as two pools served them; their TTFT has the transfer in it."""

    prefill: tuple[ServedRequests, ...]
    decode: tuple[ServedRequests, ...]
    """Requests by instance: prompts with their first token as answer, and caches as they came."""
    prefilled: Array
    """End of the prefill. [s]"""
    handed: Array
    """Arrival of the cache at the decode instance; of an answer of one token, its time. [s]"""

    @property
    def transfer_s(self) -> Array:
        """Prefill to the cache's arrival, waiting for the interconnect included. [s]"""
        return self.handed - self.prefilled


def handover(prefill: Deployment, decode: Deployment, prompt: int, wires: Wires) -> Handover:
    """Transfer between instances of two deployments.

    Source: `roofline.serving.kv_transfer.transfer`.

    Args:
        prefill, decode: An instance of each kind.
        prompt: Typical length, at which a token's share of the cache is counted. [token]
        wires: ``"network"``, or ``"link"`` inside a node.
    """
    moved = transfer(prefill, decode, prompt, 1, wires)
    # A request passes the intake of the decode instance when that serves it.
    before = moved.latency_s - decode.engine_costs.request_s
    ends = (moved.send.cache_s / prompt, moved.receive.cache_s / prompt)
    return Handover(*ends, before, moved.software_s)


def wires_between(prefill: Deployment, decode: Deployment, gpus: int) -> Wires:
    """Interconnect of two pools: links where one node holds all GPUs [1], else the network."""
    inside = prefill.node.name == decode.node.name and gpus <= prefill.node.gpus
    return "link" if inside else "network"


def disaggregated(
    given: Requests,
    prefill: InstancePool,
    decode: InstancePool,
    wires: Handover,
    *,
    concurrency: int = 0,
) -> PooledRequests:
    """Serve requests on two pools.

    Left out: that a prompt's cache stays with the prefill instance until it is sent.

    A closed loop is found by serving the first requests at the times that their clients ask at as
    far as these are known, and from that when they ask next, until the times stay. Nothing that
    comes later changes what was before, so that each round makes one more request of each client
    right. Source: waveform relaxation, Lelarasmee et al. 1982, IEEE Trans. CAD 1 (3).

    Args:
        given: Requests; no conversations, whose next turn would have to wait for both pools.
        prefill, decode: Instances of each kind.
        wires: Transfer between them.
        concurrency: Clients that send the next request, in order, when one is finished; 0 where
            requests come when they do. [1]

    Raises:
        InputError: The requests make no sense, or one of them can never be served.
    """
    if (given.after >= 0).any():
        raise InputError(
            "conversations are not simulated on two pools",
            hint="send their turns at times of their own",
        )
    check(given, decode.server)
    if concurrency < 0:
        raise InputError(f"concurrency is {concurrency}", hint="give the number of clients")
    if not concurrency:
        return _served(given, prefill, decode, wires)
    asked, known = np.zeros(len(given)), 0
    while True:
        before, known = known, min(known + concurrency, len(given))
        coming = replace(part(given, 0, known), arrival=asked[:known])
        found = _served(coming, prefill, decode, wires)
        answered = np.sort(found.finish)[: max(len(given) - concurrency, 0)]
        again = slice(concurrency, concurrency + len(answered))
        change = np.abs(answered - asked[again]).mean() if len(answered) else 0.0
        if before == len(given) and change <= SETTLED * found.latency_s.mean():
            return found
        asked[again] = answered


def _served(
    given: Requests, prefill: InstancePool, decode: InstancePool, wires: Handover
) -> PooledRequests:
    """Requests that come when they do, on two pools."""
    count = len(given)
    turn = np.arange(count) % prefill.instances
    alone = replace(given, output=np.ones_like(given.output))
    admitted, prefilled, before = np.zeros(count), np.zeros(count), []
    for instance in range(min(prefill.instances, count)):
        mine = np.flatnonzero(turn == instance)
        before.append(simulate(picked_rows(alone, mine), prefill.prices, prefill.server))
        admitted[mine], prefilled[mine] = before[-1].admitted, before[-1].first_token
    on_decode = np.zeros(count, dtype=np.int64)
    order = np.argsort(prefilled, kind="stable")
    order = order[given.output[order] > 1]
    on_decode[order] = np.arange(len(order)) % decode.instances
    handed = _handed(given.prompt, prefilled, order, turn, on_decode, wires)
    first, finish, after = prefilled.copy(), prefilled.copy(), []
    for instance in range(min(decode.instances, len(order))):
        mine = order[on_decode[order] == instance]
        mine = mine[np.argsort(handed[mine], kind="stable")]
        coming = replace(picked_rows(given, mine), arrival=handed[mine])
        after.append(simulate(coming, decode.prices, decode.server, transferred=True))
        first[mine], finish[mine] = after[-1].first_token, after[-1].finish
    return PooledRequests(
        prefill=tuple(before),
        decode=tuple(after),
        arrival=given.arrival,
        admitted=admitted,
        first_token=first,
        prefilled=prefilled,
        handed=handed,
        finish=finish,
        prompt=given.prompt,
        output=given.output,
    )


def _handed(
    prompt: Integers,
    prefilled: Array,
    order: Integers,
    sender: Integers,
    receiver: Integers,
    wires: Handover,
) -> Array:
    """Arrivals of caches: links carry one after the other, in the order they are made. [s]"""
    out, into = prompt * wires.send_s_per_token, prompt * wires.receive_s_per_token
    sending = [0.0] * (int(sender.max(initial=0)) + 1)
    receiving = [0.0] * (int(receiver.max(initial=0)) + 1)
    columns = (each[order].tolist() for each in (sender, receiver, prefilled, out, into))
    ends = []
    for one, other, made, send, receive in zip(*columns, strict=True):
        start = max(made, sending[one])
        sending[one] = start + send
        receiving[other] = max(start, receiving[other]) + receive
        ends.append(max(sending[one], receiving[other]) + wires.latency_s)
    handed = prefilled.copy()
    handed[order] = ends
    return handed
