"""A measured row served again: by the simulator that `roofline simulate` runs, with its settings.

``bs1_prefill``, ``bs1_decode``
    One sequence: TTFT; the mean time between its tokens.
``static_batch``
    A batch that starts and ends together: the first token of all, the last of all.
``steady_concurrency``
    Clients in a closed loop: means over their requests.
``steady_rate``
    Requests at a rate, whether others are answered or not: means over them.
``offline_max``, ``sharegpt_max``
    All requests at once, as many in flight as fit: until the last of them is answered; where it is
    not known how many there are, the rate of a server that never waits.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end.cases import Row
from roofline.bench.end_to_end.deploying import deployment
from roofline.bench.end_to_end.driving import CLOSED, reading, traffic_of, waiting_clients
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineProfile, kind_of
from roofline.cost.work import Array
from roofline.errors import InfeasibleError, InputError
from roofline.hardware.serving_engine import Engine
from roofline.records import replace
from roofline.serving.requests import Requests
from roofline.serving.run.serve import Fleet, serve
from roofline.serving.simulate.disaggregated import PooledRequests
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.simulate.run import check
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.server import Server, ServerOptions, page_of, server_of
from roofline.serving.traffic.draw import draw

OPEN: Final = "steady_rate"
FULL: Final = frozenset({"offline_max", "sharegpt_max"})
SINGLE: Final = FULL | {CLOSED, OPEN}
"""Modes whose requests are measured one by one, and not as a batch."""
FULLEST: Final = 0.95
"""Share of a device's memory where the usual one does not hold the network. Assumed. [1]"""
SEED: Final = 0


class PreparedRow(Struct, frozen=True):
    """A row with what its prediction needs."""

    row: Row
    """Row of the file, as it was read."""
    deployment: Deployment
    """Deployment that served it."""
    requests: Requests
    server: Server
    """Requests, and the policy that fills steps."""
    utilization: float | None = None
    """Share of device memory that was given to the engine; None for its default. [1]"""

    @property
    def engine(self) -> Engine:
        """Engine of the catalog, whose profile has its constants."""
        return self.deployment.engine

    @property
    def group(self) -> tuple[str, str, str]:
        """Device, engine and shape of the network, which share what is not modelled."""
        network = self.row.case.network
        return self.row.case.gpu, self.row.engine, SAME.get(network, network)

    @property
    def kind(self) -> str:
        """Kind of its network: ``"dense"``, ``"mixture"`` or ``"latent"``."""
        return kind_of(self.deployment.architecture)

    @property
    def clients(self) -> int:
        """Clients of all replicas together; 0 where requests come by themselves. [1]"""
        if self.row.mode == OPEN or (self.row.mode in FULL and not self.row.requests):
            return 0
        if self.row.mode in FULL:
            return len(self.requests)
        return int(self.row.batch + waiting_clients(self.row)) * int(self.row.replicas)

    def served(self, prices: StepPrices) -> ServedRequests:
        """Every request of the row, served on all replicas."""
        fleet = Fleet(prices, self.server, int(self.row.replicas))
        ramp_s = reading(self.row).ramp_s if self.row.mode == CLOSED else 0.0
        return serve(fleet, self.requests, concurrency=self.clients, ramp_s=ramp_s)

    def prices(self, profile: EngineProfile) -> StepPrices:
        """Steps of its server under some constants of its engine."""
        priced = with_profile(self.deployment, profile)
        costs = priced.engine_costs
        if self.row.mode not in SINGLE:
            # A batch is in the engine's hands before it starts.
            costs = replace(costs, request_s=0.0, serial_s=0.0, front_end_s=0.0)
        elif self.row.mode in FULL:
            costs = replace(costs, serial_s=0.0, front_end_s=0.0)
        return step_prices(
            self.deployment,
            sequences=self.server.max_sequences,
            longest=self.server.longest,
            engine=costs,
            gains=priced.kernel_gains,
        )

    def predicted(self, profile: EngineProfile) -> Mapping[str, float]:
        """Every metric of the row: ``ttft_s``, ``tpot_s``, ``latency_s``, ``throughput_tok_s``."""
        return self.predicted_by(self.prices(profile))

    def predicted_by(self, prices: StepPrices) -> Mapping[str, float]:
        """The same with steps that were priced before."""
        row = self.row
        if row.mode in FULL and not row.requests:
            return self._saturated(prices)
        served = self.served(prices)
        if row.mode not in SINGLE:
            return _batch(row, float(served.ttft_s.max()), served.totals.makespan_s)
        return request_metrics(row, served, served.totals.makespan_s)

    def _saturated(self, prices: StepPrices) -> Mapping[str, float]:
        """A server that never waits for requests, in the long run."""
        from roofline.serving.simulate.steady import closed, most, share_of

        row, share = self.row, share_of(self.requests, prices, self.server)
        rate = most(share).requests_per_s * row.replicas
        out = {"throughput_tok_s": throughput(row, rate * share.prompt, rate * share.output, 1.0)}
        if set(row.measured) - set(out):
            found = closed(share, np.array([float(share.most)]))
            times = ("ttft_s", "tpot_s", "latency_s")
            out |= {name: float(getattr(found, name)[0]) for name in times}
        return out


SAME: Final[Mapping[str, str]] = {"deepseek-r1": "deepseek-v3"}
"""Networks of one shape."""


def known(row: Row) -> PreparedRow:
    """A row with what serves it.

    Raises:
        RooflineError: The layout does not fit the network or the machine, a format has no
            arithmetic there, or nothing is left for a cache.
    """
    found = deployment(row.case)
    traffic = traffic_of(row)
    requests = draw(traffic, SEED, block=page_of(found.engine, sharing=True))
    asked, share = asked_of(row), row.memory_share
    try:
        server = server_of(found, asked, requests, share)
        check(requests, server, 0)
    except (InfeasibleError, InputError):
        share = FULLEST
        server = server_of(found, asked, requests, share)
        check(requests, server, 0)
    return PreparedRow(row, found, requests, server, share)


def asked_of(row: Row) -> ServerOptions:
    """Settings of the server that differ from its engine's defaults."""
    usual = deployment(row.case)
    # SGLang's limits are of all groups with sequences of their own, those of others of each.
    groups = 1 if row.case.engine == "sglang" else int(row.case.layout.dp)
    sequences, budget = row.max_sequences * groups, row.token_budget * groups
    if row.mode not in SINGLE or waiting_clients(row):
        sequences = max(int(row.batch), 1)
    most = budget or usual.step_tokens
    if 0 < most < sequences and usual.engine.first == "decode":
        budget = sequences
    return ServerOptions(
        max_sequences=sequences or None,
        token_budget=budget or None,
        recv_interval=row.recv_interval,
        stream_interval=row.stream_interval,
        dp_timeout_iters=row.dp_timeout_iters,
        cold=row.mode == CLOSED,
    )


def with_profile(found: Deployment, profile: EngineProfile) -> Deployment:
    """A deployment with other constants of its engine."""
    known: Any = found.calibration  # a record with a profile, whichever prices the row
    return replace(found, calibration=replace(known, profile=profile))


def request_metrics(
    row: Row, served: ServedRequests | PooledRequests, makespan_s: float
) -> Mapping[str, float]:
    """Every metric of a row whose requests are measured one by one.

    Args:
        row: Says what its figures are: means or medians, of which tokens and devices.
        served: Its requests.
        makespan_s: From the first arrival to the last answer. [s]
    """
    tpot = tpot_of(served)
    middle = np.median if row.median else np.mean
    return {
        "ttft_s": float(middle(served.ttft_s)),
        "tpot_s": float(middle(tpot)) if len(tpot) else 0.0,
        "latency_s": float(middle(served.latency_s)),
        "throughput_tok_s": throughput(row, served.prompt.sum(), served.output.sum(), makespan_s),
    }


def tpot_of(served: ServedRequests | PooledRequests) -> Array:
    """(latency − TTFT) / (tokens − 1) of each request with several tokens. [s]"""
    return np.asarray(served.tpot_s[served.output > 1])


def itl_of(served: ServedRequests) -> float:
    """The same of all requests together, so that long answers count more. [s]"""
    gaps = float((served.output - 1).sum())
    return float((served.latency_s - served.ttft_s).sum()) / gaps if gaps else 0.0


def _batch(row: Row, ttft: float, latency: float) -> Mapping[str, float]:
    """Metrics of sequences that start and end together."""
    tpot = (latency - ttft) / max(row.osl - 1.0, 1.0)
    spent = tpot * row.osl if row.mode == "bs1_decode" else latency
    tokens = row.batch * row.replicas
    return {
        "ttft_s": ttft,
        "tpot_s": tpot,
        "latency_s": latency,
        "throughput_tok_s": throughput(row, tokens * row.isl, tokens * row.osl, spent),
    }


def throughput(row: Row, prompts: float, answers: float, seconds: float) -> float:
    """Tokens that a row counts, of all replicas or of one device, each second. [token/s]

    Args:
        row: Says which are counted, and whose.
        prompts, answers: Tokens of all replicas. [token]
        seconds: In which they were done. [s]
    """
    counted = {"input": prompts, "output": answers, "input+output": prompts + answers}
    whole = float(counted[row.counts]) / seconds
    return whole / row.devices if row.scope == "per_gpu" else whole
