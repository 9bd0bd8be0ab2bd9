"""Rows of MLPerf Inference: mixed lengths, a whole system, nothing said of formats or layout.

``mlperf_offline``
    All requests at once: tokens a second of a server that never waits.
``mlperf_server``, ``mlperf_interactive``
    Poisson arrivals at the greatest rate at which 99 % of the requests keep the benchmark's limits:
    tokens a second, and mean TTFT and TPOT there.

What submissions chose is assumed: the narrowest format whose arithmetic the device has, a cache in
fp8, and the fewest devices of a replica whose weights leave room for a cache (and, where there are
limits, keep them), latent attention data-parallel with experts apart. That gives the layouts that
NVIDIA's submissions state: Llama-2-70B on 2 H100 and on 1 H200.

Only means and limits of lengths are published, so that their shape is assumed: logarithms spread
normally, as in most traces, about a median below the mean.

Sources: MLCommons, tools/submission of mlcommons/inference: tokens per sample of the reference
(TOKENS_PER_SAMPLE) and limits of TTFT and TPOT (LLM_LATENCY_LIMITS), which hold for 99 % of the
requests; mean prompts as MLCommons tells of each benchmark: mlcommons.org/2025/04/llm-inference-v5
(405B), /2025/09/deepseek-inference-5-1 (R1), /2025/09/small-llm-inference-5-1 (8B), recalled; that
of OpenOrca is stated nowhere at hand, and prompts are taken as long as the answers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end import naming
from roofline.bench.end_to_end.cases import Row, number, row_of, said
from roofline.bench.end_to_end.deploying import deployment
from roofline.bench.end_to_end.driving import CLOSED
from roofline.bench.end_to_end.held_out import Spreads
from roofline.bench.end_to_end.kinds.prediction import ApartRow, Prediction, wider
from roofline.bench.end_to_end.metrics import profile_of
from roofline.bench.end_to_end.replay import SEED, PreparedRow, throughput
from roofline.cost.memory import weight_bytes
from roofline.cost.work import Array
from roofline.errors import InfeasibleError, InputError
from roofline.records import replace
from roofline.serving.requests import Requests
from roofline.serving.simulate.server import ServerOptions, page_of, server_of
from roofline.serving.simulate.steady import arriving, most, share_of
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import Lengths, Lognormal
from roofline.serving.traffic.traffic import Closed, Traffic

OFFLINE: Final = "mlperf_offline"
SERVER: Final = "mlperf_server"
INTERACTIVE: Final = "mlperf_interactive"
MODES: Final = (OFFLINE, SERVER, INTERACTIVE)
FULL: Final = "offline_max"
NARROWEST: Final = (("fp4", "nvfp4"), ("fp8", "fp8"))
"""Formats of weights by the arithmetic that they need, the first that a device has. Assumed."""
REPLICA: Final = (1, 2, 4, 8, 16, 32)
"""Devices of a replica. [1]"""
WEIGHTS: Final = 0.6
"""Most of a device's memory that weights take, so that the rest is a cache. Assumed. [1]"""
KEPT: Final = 99.0
"""Share of the requests that keep the limits. [%]"""
REQUESTS: Final = 2048
"""Requests whose lengths stand for those of all. [1]"""
RATES: Final = np.linspace(0.02, 0.995, 40)
"""Rates that are looked at, over the most that is served. [1]"""
UNSURE: Final = 0.15
"""Log standard deviation of what is assumed: lengths' shape, formats, layout. Assumed. [1]"""
LIMITED: Final = 2.0
"""Factor on it where the slowest of a hundred requests decide, those of the longest prompts.
Assumed. [1]"""
RELEASES: Final[Mapping[str, str]] = {
    "mlperf-v4.1": "0.11",
    "mlperf-v5.0": "0.17",
    "mlperf-v5.1": "1.0",
    "mlperf-v6.0": "1.2",
}
"""Release of TensorRT-LLM that was there when a round's results were due. Assumed."""
TENSORRT: Final = "TensorRT"
"""Words of notes for the engine, where the column leaves it open."""


class LatencyLimit(Struct, frozen=True):
    """Limits that 99 % of the requests keep."""

    ttft_s: float
    tpot_s: float
    """Longest time to the first token, and mean time between the others. [s]"""


class Dataset(Struct, frozen=True):
    """Requests of a benchmark."""

    name: str
    """Dataset."""
    prompt: Lengths
    output: Lengths
    """Lengths. [token]"""
    limits: Mapping[str, LatencyLimit]
    """By scenario."""


DATASETS: Final[Mapping[str, Dataset]] = {
    "llama-2-70b": Dataset(
        "OpenOrca",
        Lognormal.of_mean(215.0, 294.0, 1024),
        Lognormal.of_mean(215.0, 294.45, 1024),
        {SERVER: LatencyLimit(2.0, 0.2), INTERACTIVE: LatencyLimit(0.45, 0.04)},
    ),
    "llama-3.1-405b": Dataset(
        "LongBench, LongDataCollections, RULER and GovReport",
        Lognormal.of_mean(7500.0, 9400.0, 20_000),
        Lognormal.of_mean(500.0, 684.68, 2000),
        {SERVER: LatencyLimit(6.0, 0.175), INTERACTIVE: LatencyLimit(4.5, 0.08)},
    ),
    "llama-3.1-8b": Dataset(
        "CNN/DailyMail",
        Lognormal.of_mean(700.0, 778.0, 2540),
        Lognormal.of_mean(70.0, 73.0, 128),
        {SERVER: LatencyLimit(2.0, 0.1), INTERACTIVE: LatencyLimit(0.5, 0.03)},
    ),
    "deepseek-r1": Dataset(
        "AIME, MATH500, GPQA, MMLU-Pro and LiveCodeBench",
        Lognormal.of_mean(400.0, 800.0, 3136),
        Lognormal.of_mean(2600.0, 3886.2274, 20_000),
        {SERVER: LatencyLimit(2.0, 0.08)},
    ),
}
"""By network of the catalog."""
UNDESCRIBED: Final[Mapping[str, str]] = {
    "mixtral-8x7b-v0.1": "how long its prompts of OpenOrca, GSM8K and MBXP are is not published",
    "gpt-oss-120b": "how long its prompts and answers are is not published",
}
"""Benchmarks whose requests cannot be described, and why."""
DRAFTS: Final = frozenset({("deepseek-r1", INTERACTIVE)})
"""Benchmarks that may draft tokens, so that nobody knows which submissions did."""


@dataclass(frozen=True)
class MlperfRow(ApartRow):
    """A measured row of a benchmark."""

    candidates: tuple[Row, ...]
    """The row by the devices of a replica, the fewest first; all of the same system."""
    scenario: str
    """One of `MODES`."""
    dataset: Dataset
    """Its requests."""

    def predict(self, logs: Array, spreads: Spreads) -> Prediction:
        """Prediction by constants of engines, and their spreads."""
        limit = self.dataset.limits.get(self.scenario)
        for each in self._held():
            metrics = self._offline(each, logs) if limit is None else self._kept(each, logs, limit)
            if metrics is not None:
                return self._prediction(each, metrics, spreads)
        raise InfeasibleError(
            "no replica of these devices holds the network and keeps the limits of the benchmark",
            hint="give the layout that was run",
        )

    def _held(self) -> Iterator[PreparedRow]:
        """Replicas whose weights leave room."""
        for row in self.candidates:
            found = deployment(row.case)
            if float(weight_bytes(found)) > WEIGHTS * found.node.gpu.memory_bytes:
                continue
            page = page_of(found.engine, sharing=True)
            requests = _requests(self.dataset.prompt, self.dataset.output, page)
            yield PreparedRow(
                row, found, requests, server_of(found, ServerOptions(), requests, None)
            )

    def _offline(self, each: PreparedRow, logs: Array) -> Mapping[str, float]:
        share = share_of(each.requests, each.prices(profile_of(each, logs)), each.server)
        rate = most(share).requests_per_s * each.row.replicas
        prompts, answers = rate * share.prompt, rate * share.output
        return {"throughput_tok_s": throughput(each.row, prompts, answers, 1.0)}

    def _kept(
        self, each: PreparedRow, logs: Array, limit: LatencyLimit
    ) -> Mapping[str, float] | None:
        """Metrics at the greatest rate that keeps limits; None where none does."""
        share = share_of(each.requests, each.prices(profile_of(each, logs)), each.server)
        full = most(share)
        found = arriving(share, RATES * full.requests_per_s, full)
        kept = found.ttft_percentile(KEPT) <= limit.ttft_s
        kept &= found.tpot_percentile(KEPT) <= limit.tpot_s
        good = np.flatnonzero(found.stable & kept)
        if not len(good):
            return None
        best = int(good[-1])
        rate = float(found.requests_per_s[best]) * each.row.replicas
        return {
            "ttft_s": float(found.ttft_s[best]),
            "tpot_s": float(found.tpot_s[best]),
            "latency_s": float(found.latency_s[best]),
            "throughput_tok_s": throughput(each.row, rate * share.prompt, rate * share.output, 1.0),
        }

    def _prediction(
        self, each: PreparedRow, metrics: Mapping[str, float], spreads: Spreads
    ) -> Prediction:
        # Times at a rate are as sure as those of clients; nobody measured others.
        loop = replace(each, row=replace(each.row, mode=CLOSED))
        alike, unsure = (each, UNSURE) if self.scenario == OFFLINE else (loop, UNSURE * LIMITED)
        case = each.row.case
        return Prediction(
            each.row,
            each.engine.profile,
            each.kind,
            predicted=metrics,
            log_sd={name: wider(spreads, alike, name, unsure) for name in each.row.measured},
            basis=f"lengths of {self.dataset.name}, assumed: {case.weights} weights, "
            f"{each.row.replicas:.0f} x {case.layout.spelled}",
        )


@cache
def _requests(prompt: Lengths, output: Lengths, page: int) -> Requests:
    """Requests of a dataset."""
    traffic = Traffic(prompt, output, Closed(1), REQUESTS)
    return draw(traffic, SEED, block=page)


def mlperf_row(place: int, record: Mapping[str, Any]) -> MlperfRow:
    """Row of a benchmark.

    Raises:
        InputError: Its requests cannot be described, or it does not say how many devices it has.
    """
    scenario, network = said(record, "mode"), naming.network(said(record, "model"))
    if why := UNDESCRIBED.get(network.name):
        raise InputError(f"MLPerf of {network.name}: {why}", hint="see mlperf_rows.py")
    if network.name not in DATASETS or (network.name, scenario) in DRAFTS:
        why = "may draft tokens" if network.name in DATASETS else "is not described"
        raise InputError(f"{scenario} of {network.name} {why}", hint="see mlperf_rows.py")
    devices = int(number(record, "n_gpus", 0.0))
    if not devices:
        raise InputError("how many devices it has is not said", hint="give n_gpus")
    gpu, _ = naming.device(said(record, "gpu"))
    stored = said(record, "w_dtype") or next(
        (stored for arithmetic, stored in NARROWEST if arithmetic in gpu.flops_per_s), "bf16"
    )
    told = {
        **record,
        **_engine(record),
        "mode": FULL,
        "w_dtype": stored,
        "kv_dtype": "fp8",
        "batch": 0,
    }
    latent = network.latent_forms
    candidates = tuple(
        row_of(place, {**told, **_degrees(size, latent)}) for size in REPLICA if devices % size == 0
    )
    return MlperfRow(place, candidates[0].case, candidates, scenario, DATASETS[network.name])


def _engine(record: Mapping[str, Any]) -> dict[str, str]:
    """Columns of the engine and its release."""
    name, release = said(record, "engine"), said(record, "version")
    if TENSORRT in said(record, "notes"):
        name = "trtllm"
    return {"engine": name, "version": RELEASES.get(release, release) if name == "trtllm" else ""}


def _degrees(size: int, latent: bool) -> dict[str, int]:
    """Columns of a replica's layout."""
    if latent and size > 1:
        return {"tp": 1, "attn_dp": size, "ep": size, "pp": 1}
    return {"tp": size, "attn_dp": 1, "ep": 1, "pp": 1}
