"""Rows of disaggregated servers: prefill and decode on instances of their own.

``prefill_cfg`` and ``decode_cfg`` say the layout of an instance of each kind and how many there
are, as JSON in either of two spellings: ``{"num_workers": 1, "tp_size": 4, "attention_dp_size": 1,
"moe_ep_size": 4}``, or ``{"num_workers": 1, "tp": 4, "ep": 4, "dp_attention": false}``, where the
attention of ``tp`` devices is data-parallel or not. A throughput per GPU counts the devices that
decode, as the source divides: by Little's law, clients · tokens / latency / throughput is the
number of these within 8 % in four of five rows that have a latency.
"""

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

from roofline.bench.end_to_end.cases import Row, number, row_of, said
from roofline.bench.end_to_end.driving import CLOSED, waiting_clients
from roofline.bench.end_to_end.held_out import Spreads
from roofline.bench.end_to_end.kinds.prediction import ApartRow, Prediction, wider
from roofline.bench.end_to_end.metrics import profile_of
from roofline.bench.end_to_end.replay import PreparedRow, known, request_metrics
from roofline.content import shipped
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.hardware.catalog import gpu
from roofline.hardware.engine import engine
from roofline.records import replace
from roofline.serving.kv_transfer import SOFTWARE_SD
from roofline.serving.requests import part
from roofline.serving.simulate.disaggregated import (
    InstancePool,
    disaggregated,
    handover,
    wires_between,
)
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import MOST_SEQUENCES

MODE: Final = "disagg"
CONFIGS: Final = ("prefill_cfg", "decode_cfg")


@dataclass(frozen=True)
class PooledRow(ApartRow):
    """A measured row of a disaggregated server."""

    prefill: Row
    decode: Row
    """The row as an instance of either pool would be asked; their devices are those of an
    instance."""
    instances: tuple[int, int]
    """Instances of each pool. [1]"""

    @cached_property
    def pools(self) -> tuple[PreparedRow, PreparedRow]:
        """An instance of each kind with what serves the row."""
        return known(self.prefill), known(self.decode)

    @property
    def clients(self) -> int:
        """Clients of the closed loop. [1]"""
        return int(self.decode.batch) + waiting_clients(self.decode)

    @property
    def gpus(self) -> int:
        """Devices of both pools. [1]"""
        sides = zip((self.prefill, self.decode), self.instances, strict=True)
        return sum(int(row.case.layout.devices) * count for row, count in sides)

    def predict(self, logs: Array, spreads: Spreads) -> Prediction:
        """Prediction by constants of engines, and their spreads."""
        before, after = self.pools
        # Instances that share nothing, with clients of their own, are served once.
        alike = math.gcd(*self.instances, self.clients)
        clients, asked = self.clients // alike, after.requests
        requests = part(asked, 0, max(len(asked) // alike, 1))
        prefill, decode = (
            InstancePool(
                _behind_a_router(each.prices(profile_of(each, logs))),
                replace(each.server, max_sequences=min(each.server.max_sequences, clients)),
                count // alike,
            )
            for each, count in zip(self.pools, self.instances, strict=True)
        )
        prompt = max(round(float(requests.prompt.mean())), 1)
        wires = wires_between(before.deployment, after.deployment, self.gpus)
        handed = handover(before.deployment, after.deployment, prompt, wires)
        served = disaggregated(requests, prefill, decode, handed, concurrency=clients)
        decoding = float(self.decode.case.layout.devices) * decode.instances
        whole = replace(self.decode, devices=decoding)
        span = float(served.finish.max() - served.arrival.min())
        sides = {"ttft_s": before}
        predicted = request_metrics(whole, served, span)
        log_sd = {
            name: wider(spreads, sides.get(name, after), name) for name in self.decode.measured
        }
        if "ttft_s" in log_sd:
            software = after.deployment.engine.handover_s / predicted["ttft_s"]
            log_sd["ttft_s"] = math.hypot(log_sd["ttft_s"], SOFTWARE_SD * software)
        return Prediction(
            after.row,
            after.engine.profile,
            after.kind,
            predicted=predicted,
            log_sd=log_sd,
            basis=f"two pools of {after.row.case.gpu}, caches over the {wires}, constants fitted "
            f"for {after.engine.profile} where one server prefills and decodes",
        )


def _behind_a_router(prices: StepPrices) -> StepPrices:
    """Prices without the HTTP front end of the engine's own server.

    Most rows of TensorRT-LLM name NVIDIA Dynamo, whose compiled router takes requests and hands
    tokens out. That it takes no time, and that rows of other engines had one too, is assumed.
    A request is routed to a worker that prefills and, with what that returns, to one that decodes
    (docs.nvidia.com/dynamo, architecture flow): it passes the intake of two engines.
    """
    return replace(prices, engine=replace(prices.engine, serial_s=0.0, front_end_s=0.0))


def pooled_row(place: int, record: Mapping[str, Any]) -> PooledRow:
    """Row of a disaggregated server.

    Raises:
        InputError: It does not say which instances there were, or how many clients.
    """
    if drafts := said(record, "speculation"):
        raise InputError(
            f"two pools with {drafts}, and how many tokens are drafted is not said",
            hint="leave speculation blank for plain decoding",
        )
    clients = number(record, "batch", 0.0)
    if not clients:
        raise InputError("two pools and no number of clients", hint="give batch")
    sides = [_instance(said(record, name), name) for name in CONFIGS]

    def instance(columns: Mapping[str, float]) -> Row:
        """The row as an instance would be asked."""
        found = row_of(place, {**record, "mode": CLOSED, **columns})
        sent = number(record, "requests", 0.0)
        return _bounded(replace(found, replicas=1.0, batch=clients, requests=sent))

    prefill, decode = (instance(layout) for layout, _ in sides)
    if not said(record, "max_num_seqs"):
        recipe = recipe_of(decode, sides[1][1])
        decode = instance({**sides[1][0], **recipe}) if recipe else decode
    cases = prefill.case, decode.case
    return PooledRow(place, cases, prefill, decode, (sides[0][1], sides[1][1]))


def _bounded(row: Row) -> Row:
    """The row with as many sequences as the simulator knows, where its engine would run more."""
    groups = int(row.case.layout.dp)
    usual = row.max_sequences or engine(row.case.engine).sequences_on(gpu(row.case.gpu))
    if usual * groups <= MOST_SEQUENCES:
        return row
    own = 1 if row.case.engine == "sglang" else groups
    return replace(row, max_sequences=MOST_SEQUENCES // own)


def _instance(text: str, name: str) -> tuple[dict[str, float], int]:
    """Columns of an instance's layout, and how many instances there are."""
    if not text:
        raise InputError("which devices prefill and which decode is not said", hint=f"give {name}")
    try:
        told = json.loads(text)
    except json.JSONDecodeError:
        raise InputError(f"{name} is no JSON", hint="give the layout of an instance") from None
    if not told.get("num_workers"):
        raise InputError(
            "two pools of instances that nobody counted", hint="give num_workers of both"
        )
    if "dp_attention" in told:
        tp, ep = told["tp"], told["ep"]
        tp, dp = (1, tp) if told["dp_attention"] else (tp, 1)
    else:
        tp, dp, ep = (told[key] or 1 for key in ("tp_size", "attention_dp_size", "moe_ep_size"))
    columns = {"n_gpus": tp * dp, "tp": tp, "attn_dp": dp, "ep": ep, "pp": told.get("pp_size", 1)}
    return columns, int(told["num_workers"])


FOLDER: Final = "recipes"
FILES: Final[Mapping[tuple[str, str], str]] = {("inferencemax", "trtllm"): "inferencex-trtllm"}
"""Name of the file by the family of rows, and the engine."""
NARROW: Final = "nvfp4"
WIDE: Final = "fp8"
"""Formats of DeepSeek-R1 that there are recipes for; the second is that of its own checkpoint."""

Key = tuple[str, str, int, int, int, int, int]
"""GPU and format of the weights, prompt and answer [token], clients, instances, devices of an
instance. [1]"""
Columns = Mapping[str, float]


def recipe_of(decode: Row, instances: int) -> Columns:
    """Columns of an instance of a decode pool, as `row_of` reads them; empty without a recipe.

    Args:
        decode: The row as such an instance would be asked, with all clients.
        instances: How many there are. [1]
    """
    case, name = decode.case, FILES.get((decode.family, decode.engine))
    if name is None:
        return {}
    weights = NARROW if case.weights == NARROW else WIDE
    sizes = (int(decode.batch), instances, int(case.layout.devices))
    key = (case.gpu, weights, int(decode.isl), int(decode.osl), *sizes)
    return recipes(name).get(key, {})


@cache
def recipes(name: str) -> Mapping[Key, Columns]:
    """Recipes of a file.

    A layout is ``tp``, ``tep``, ``dp`` or ``dep`` and its devices: attention that is divided, or
    copied to each of them (``d``), and experts in parallel (``e``).
    """
    text = (shipped("hwspecs") / FOLDER / f"{name}.csv").read_text(encoding="utf-8")
    found: dict[Key, Columns] = {}
    for each in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        kind = each["layout"].rstrip("0123456789")
        devices = int(each["layout"].removeprefix(kind))
        copied, parallel = kind.startswith("d"), "e" in kind
        columns = {
            "tp": 1 if copied else devices,
            "attn_dp": devices if copied else 1,
            "ep": devices if parallel else 1,
            "max_num_seqs": int(each["batch"]),
        }
        lengths, instances = (int(each["prompt"]), int(each["answer"])), int(each["instances"])
        for clients in map(int, each["clients"].split()):
            key = (each["gpu"], each["weights"], *lengths, clients, instances, devices)
            found[key] = columns
    return found
