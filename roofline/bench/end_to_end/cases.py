"""From a measured row to what ran: network, devices, formats, layout; and to what was asked of it.

Missing columns take these defaults. ``w_dtype``: the format that the checkpoint's name ends in,
else that of the catalog's checkpoint, else bf16. ``kv_dtype``: that of the checkpoint, else fp8
where TensorRT-LLM or vLLM serve fp8 or nvfp4 weights (checkpoints of NVIDIA's ModelOpt bring
scales for it), or the cache is a latent of weights of 8 bits or fewer, else 16 bits. ``tp``:
``n_gpus``; other degrees: 1. ``isl``, ``osl``: 32 and 128 tokens, the means of ShareGPT for
``sharegpt_max``. ``batch``: 1. ``thr_counts``: output tokens; ``thr_scope``: all devices
together; ``requests``, ``rate``, ``cv``, ``spread``: how the clients of such rows usually are
driven, see `roofline.bench.end_to_end.driving`. ``length_low``,
``length_high``: likewise. ``max_num_seqs``, ``max_batched_tokens``,
``gpu_memory_fraction``: the engine's on that device, but for `GENERATED` servers; a limit of
sequences below the clients, of a row whose day and so whose server is not known, is another
server's. ``scheduler_recv_interval``,
``stream_interval``: 1. ``attention_dp_timeout_iters``: 0. ``ttft_stat``: mean; it holds for all
three times.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end import naming
from roofline.bench.end_to_end.naming import alike
from roofline.cost.layout import Layout
from roofline.errors import InputError, described
from roofline.hardware.engine import engine_of
from roofline.model import precision
from roofline.model.architecture import Architecture

if TYPE_CHECKING:
    import pandas

MODES: Final = (
    "bs1_prefill",
    "bs1_decode",
    "static_batch",
    "offline_max",
    "sharegpt_max",
    "steady_concurrency",
    "steady_rate",
)
METRICS: Final = ("ttft_s", "tpot_s", "latency_s", "throughput_tok_s")
NEEDED: Final = ("engine", "gpu", "model", "mode")
SHAREGPT: Final = (247.0, 233.0)
"""Mean prompt and answer of ShareGPT as serving benchmarks sample it (the rates of requests and of
tokens that LMDeploy publishes for it give 246.9 and 232.7). [token]"""
CONTRADICTION: Final = 1.3
"""Factor by which a latency may differ from what TTFT and TPOT make of it. [1]"""
ALONE: Final = (32.0, 128.0)
"""A prompt of one sentence, and an answer. [token]"""
NARROW: Final = 8.0
"""Bits per weight from which on engines keep latents in fp8, and 4-bit mixtures begin below it."""
SCALED: Final = frozenset({"trtllm", "vllm"})
"""Engines that take them as checkpoints bring them."""
MODELOPT: Final = frozenset({"fp8", "nvfp4"})
"""Formats whose checkpoints bring them; DeepSeek's blocks, mxfp4 and AWQ bring none."""
BY_LAYERS: Final = frozenset({"llama.cpp"})
"""Engines that give each device whole layers unless told otherwise."""
UNDATED: Final = "undated"
"""First word of the source of settings that several servers agree on."""
GENERATED: Final = frozenset({("nvidia-dynamo-lab", "trtllm"), ("nvidia-dynamo-lab", "vllm")})
"""Families and engines of rows whose servers were set up for the lengths and clients of each: they
take one prompt a step.

The lab states no settings. aiconfigurator, which publishes its rows, gives a server as many tokens
of a step as a prompt and one of each client, and 1,500 more (generator/rule_plugin/benchmark). That
these 1,500 were not there is inferred: with them prompts of 1,024 tokens come in pairs, and TTFT at
8 to 32 clients is twice what was measured, for two engines and each number of devices."""
BLOCKS: Final = frozenset({("nvidia-dynamo-lab", "qwen3-32b")})
"""Families and networks of rows whose fp8 is that of the network's own checkpoint, in blocks.

aiconfigurator serves Qwen3-32B of TensorRT-LLM 1.0 as ``Qwen/Qwen3-32B-FP8``
(tools/automation/README.md), whose weights have a scale for each 128 × 128 of them. That the cache
is in fp8 as well is inferred: in 16 bits that of one device does not hold 128 clients."""
LATEST: Final = "999.0"
"""Later than any release."""
CUTTING: Final = frozenset({"vllm", "sglang"})
"""Engines that end an answer where the network's longest context ends."""
LARGEST_GROUP: Final = 8
"""Devices that share the matrices of one layer in any engine's usual latent attention; more of them
have sequences of their own."""


class Case(Struct, frozen=True):
    """Deployment that was measured; rows of one case are priced together."""

    network: str
    gpu: str
    """Names in the catalogs."""
    weights: str
    experts: str
    kv: str
    """Number formats of the linear layers, of routed experts where they differ, of the cache."""
    layout: Layout
    """Degrees of parallelism of a replica."""
    engine: str
    """Name in the catalog of engines."""


class Row(Struct, frozen=True):
    """A measured row as it is predicted."""

    place: int
    """In the file, from 0. [1]"""
    case: Case
    """Deployment that was measured."""
    mode: str
    engine: str
    version: str
    family: str
    """As the source says."""
    batch: float
    """Sequences together, of a replica; or clients. 0 where an engine takes what fits. [1]"""
    isl: float
    osl: float
    """Prompt and answer. [token]"""
    replicas: float
    devices: float
    """Copies of the deployment, and devices of all of them. [1]"""
    measured: Mapping[str, float]
    """Metrics that the row has, in SI units, by name."""
    counts: str = "output"
    scope: str = "total"
    """Tokens that the throughput counts, and whose it is: ``"per_gpu"`` or ``"total"``."""
    requests: float = 0.0
    """Answered by a replica; 0 where it is not known. [1]"""
    rate: float = 0.0
    cv: float = 1.0
    """Requests a second of a replica, and the standard deviation of their gaps over the mean.
    [1/s]"""
    spread: float | None = None
    """Half of the range of lengths over the mean; None where it is not known. [1]"""
    lengths: tuple[float, float] | None = None
    """Shortest and longest of prompts and answers over the nominal length, uniform in between;
    None where it is not known. [1]"""
    max_sequences: int = 0
    token_budget: int = 0
    """Limits that the server was started with; 0 for the engine's default. [1] [token]"""
    memory_share: float | None = None
    """The same of memory; None for the engine's default. [1]"""
    recv_interval: int = 1
    stream_interval: int = 1
    """Decode steps between looks at new requests; tokens that are sent together. [1] [token]"""
    median: bool = False
    """Whether TTFT, TPOT and latency are medians over the requests, and not their means."""
    dp_timeout_iters: int = 0
    """Steps that prompts wait at most until every copy of attention has one; 0 where they do not.
    [1]"""
    date: str = ""
    """Day of the run, as ``2026-01-21``; empty where it is not known."""


class UnreadRow(Struct, frozen=True):
    """A row that cannot be predicted, and why."""

    place: int
    why: str


def read(frame: "pandas.DataFrame") -> tuple[list[Row], list[UnreadRow]]:
    """Rows of a table in the columns of the shared measurements, and those that cannot be read.

    Raises:
        InputError: One of the columns `NEEDED` is missing.
    """
    for column in NEEDED:
        if column not in frame:
            raise InputError(
                f"the measurements have no column {column}",
                hint=f"rows need {', '.join(NEEDED)} and at least one of {', '.join(METRICS)}",
            )
    rows: list[Row] = []
    unread: list[UnreadRow] = []
    for place, record in enumerate(frame.to_dict("records")):
        try:
            rows.append(row_of(place, {str(key): value for key, value in record.items()}))
        except (InputError, LookupError, ValueError) as error:
            unread.append(UnreadRow(place, described(error)))
    return rows, unread


def contradicted(row: Row) -> str:
    """The metric that the others of its row contradict: a latency beyond all rounding.

    Some sources measured it at another length than the row says.
    """
    have = row.measured
    if not {"ttft_s", "tpot_s", "latency_s"} <= set(have) or row.osl <= 1:
        return ""
    follows = have["ttft_s"] + (row.osl - 1) * have["tpot_s"]
    off = abs(np.log(have["latency_s"] / follows))
    return "latency_s" if off > np.log(CONTRADICTION) else ""


def row_of(place: int, record: Mapping[str, Any]) -> Row:
    """A row of a table of measurements, by its place in the file, from 0, and its columns.

    Raises:
        InputError, UnknownNameError, ValueError: It cannot be read, or it has several tokens of a
            step.
    """
    mode = said(record, "mode")
    if mode not in MODES:
        raise InputError(f"no mode is called {mode!r:.40}", hint=", ".join(MODES))
    if drafts := said(record, "speculation"):
        raise InputError(
            f"{drafts} has several tokens of a step", hint="such rows are predicted apart"
        )
    engine = said(record, "engine")
    network = naming.network(said(record, "model"))
    gpu, _ = naming.device(said(record, "gpu"))
    layout, replicas = _layout(record, network, engine, mode)
    family = said(record, "family")
    weights = _weights(record, network, engine)
    experts = (
        naming.number_format(said(record, "moe_dtype"), engine)
        if said(record, "moe_dtype") and network.mixtures
        else ""
    )
    case = Case(
        network.name,
        gpu.name,
        weights,
        experts if experts != weights else "",
        _cache(record, network, weights, engine),
        layout,
        _served_by(record, engine),
    )
    isl, osl = _lengths(record, mode)
    batch = number(record, "batch", 1.0 if mode != "offline_max" else 0.0)
    measured = {name: value for name in METRICS if (value := number(record, name, 0.0))}
    if not measured:
        raise InputError("no metric is measured", hint=f"give one of {', '.join(METRICS)}")
    _within(network, engine, isl + osl)
    return Row(
        place,
        case,
        mode,
        engine,
        said(record, "version"),
        family,
        max(np.ceil(batch / replicas), 1.0) if batch else 0.0,
        isl,
        osl,
        replicas,
        float(layout.devices) * replicas,
        measured,
        word(record, "thr_counts", ("output", "input", "input+output")),
        word(record, "thr_scope", ("total", "per_gpu")),
        np.ceil(number(record, "requests", 0.0) / replicas),
        _rate(record, mode) / replicas,
        number(record, "cv", 1.0),
        number(record, "spread", 0.0) if said(record, "spread") else None,
        _lengths_drawn(record),
        _most_sequences(record, batch / replicas),
        _token_budget(record, isl, batch / replicas),
        _share(record),
        int(number(record, "scheduler_recv_interval", 1.0)),
        int(number(record, "stream_interval", 1.0)),
        word(record, "ttft_stat", ("mean", "median")) == "median",
        int(number(record, "attention_dp_timeout_iters", 0.0)),
        said(record, "date"),
    )


def _served_by(record: Mapping[str, Any], engine: str) -> str:
    """Engine of the catalog; an earlier vLLM that was told to schedule ahead is as the latest."""
    ahead = engine.lower() == "vllm" and said(record, "async_scheduling") == "on"
    return engine_of(engine, LATEST if ahead else said(record, "version")).name


def _most_sequences(record: Mapping[str, Any], clients: float) -> int:
    """Sequences that the server was told to run together; 0 where nobody says. [1]"""
    most = int(number(record, "max_num_seqs", 0.0))
    guessed = said(record, "settings_match").startswith(UNDATED)
    return 0 if guessed and most < clients else most


def _token_budget(record: Mapping[str, Any], prompt: float, clients: float) -> int:
    """Tokens of a step that the server was told; 0 for its engine's default. [token]"""
    told = number(record, "max_batched_tokens", 0.0)
    generated = (said(record, "family"), said(record, "engine").lower()) in GENERATED
    return int(told or (clients + prompt if generated else 0.0))


def _lengths_drawn(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """Range of lengths over the nominal one; None where a source does not say. [1]"""
    if not said(record, "length_low"):
        return None
    low = number(record, "length_low", 1.0)
    high = number(record, "length_high", 1.0)
    if not 0 < low <= high:
        raise InputError(f"lengths from {low:g} to {high:g} of nominal", hint="the lower one first")
    return low, high


def _share(record: Mapping[str, Any]) -> float | None:
    """Share of memory that the server's flag gives the engine, None without the flag. [1]"""
    share = number(record, "gpu_memory_fraction", 0.0)
    if share > 1:
        raise InputError(f"gpu_memory_fraction is {share:g}", hint="give a share up to 1")
    return share or None


def _rate(record: Mapping[str, Any], mode: str) -> float:
    """Requests a second, which rows of a rate must have. [1/s]"""
    rate = number(record, "rate", 0.0)
    if mode == "steady_rate" and not rate:
        raise InputError("rate is missing", hint="rows of steady_rate need requests a second")
    return rate


def _lengths(record: Mapping[str, Any], mode: str) -> tuple[float, float]:
    prompt, answer = SHAREGPT if mode == "sharegpt_max" else ALONE
    isl = number(record, "isl", prompt)
    osl = number(record, "osl", answer)
    if isl < 1:
        raise InputError(f"isl is {isl:g}", hint="a prompt has at least one token")
    return isl, 1.0 if mode == "bs1_prefill" else max(osl, 1.0)


def _within(network: Architecture, engine: str, tokens: float) -> None:
    """Refuse what an engine would have cut short: it made fewer tokens than the row says."""
    limit = network.max_context
    if engine.lower() in CUTTING and limit is not None and tokens > limit:
        raise InputError(
            f"{tokens:g} tokens are more than the {limit} that {network.name} is made for",
            hint=f"{engine} stops there; give the lengths that were run",
        )


def _layout(
    record: Mapping[str, Any], network: Architecture, engine: str, mode: str
) -> tuple[Layout, float]:
    """Degrees of a replica, and how many replicas there are."""
    devices = number(record, "n_gpus", 0.0)
    tp = number(record, "tp", 0.0) or devices or 1.0
    pp = number(record, "pp", 0.0) or 1.0
    ep = number(record, "ep", 0.0) or 1.0
    dp = number(record, "attn_dp", 0.0) or 1.0
    devices = devices or tp * pp
    for name, value in {"tp": tp, "pp": pp, "ep": ep, "attn_dp": dp, "n_gpus": devices}.items():
        if value != int(value):
            raise InputError(f"{name} is {value:g}", hint="give a whole number")
    if engine in BY_LAYERS and tp > 1:
        tp, pp = 1.0, tp * pp
    mixture = bool(network.mixtures)
    latent = network.latent_forms
    if mixture and latent and tp > LARGEST_GROUP:
        dp, tp, ep = tp, 1.0, tp
    elif mixture and dp > 1 and tp * pp >= devices:
        tp = max(tp / dp, 1.0)
    if not mixture:
        ep, dp = 1.0, 1.0
    ep = min(ep, tp * dp)
    layout = Layout(tp=int(tp), dp=int(dp), ep=int(ep), pp=int(pp))
    return layout, max(devices // float(layout.devices), 1.0)


def _weights(record: Mapping[str, Any], network: Architecture, engine: str) -> str:
    """Format of the linear layers, ``"checkpoint"`` for that of the catalog."""
    text = said(record, "w_dtype")
    named = naming.stored(said(record, "model"))
    if named and (not text or "assumed" in text):
        return naming.number_format(named, engine)
    own = network.weight_format
    if not text or "assumed" in text:
        return "checkpoint" if own != "fp32" else "bf16"
    asked = naming.number_format(text, engine)
    if asked == "fp8" and (said(record, "family"), network.name) in BLOCKS:
        return "fp8-block"
    return "checkpoint" if alike(asked, own) else asked


def _cache(record: Mapping[str, Any], network: Architecture, weights: str, engine: str) -> str:
    text = said(record, "kv_dtype")
    if text and "assumed" not in text:
        return naming.number_format(text, engine)
    if network.kv_format:
        return network.kv_format
    stored = network.weight_format if weights == "checkpoint" else weights
    narrow = precision.named(stored).element_bits <= NARROW
    latent = network.latent_forms
    scaled = engine in SCALED and stored in MODELOPT
    scaled |= stored == "fp8-block" and (said(record, "family"), network.name) in BLOCKS
    return "fp8" if scaled or (narrow and latent) else "auto"


def said(record: Mapping[str, Any], name: str) -> str:
    """Text of a column; empty where it says nothing."""
    value = record.get(name)
    return "" if value is None or value != value else str(value).strip()


def word(record: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    """One of some words, the first where there is none.

    Raises:
        InputError: It is another.
    """
    found = said(record, name) or allowed[0]
    if found not in allowed:
        raise InputError(f"{name} is {found!r:.40}", hint=f"give {', '.join(allowed)}")
    return found


def number(record: Mapping[str, Any], name: str, default: float) -> float:
    """A number of 0 or more.

    Raises:
        InputError, ValueError: It is below 0 or endless, or no number.
    """
    text = said(record, name)
    if not text:
        return default
    value = float(text)
    if not 0 <= value < np.inf:
        raise InputError(f"{name} is {text:.40}", hint="give a number of 0 or more")
    return value
