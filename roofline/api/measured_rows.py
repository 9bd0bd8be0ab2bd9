"""A measured run as a row that can be predicted: what its file says, completed by options."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from roofline.bench.end_to_end import naming
from roofline.errors import DocumentError, prefixed
from roofline.interop.results import MeasuredRun, RunOptions, RunScenario
from roofline.records import replace

METRICS: Final[Mapping[str, str]] = {
    "ttft": "ttft_s",
    "tpot": "tpot_s",
    "itl": "itl_s",
    "latency": "latency_s",
    "output_throughput": "output_tok_s",
    "input_throughput": "input_tok_s",
    "total_throughput": "total_tok_s",
    "request_throughput": "requests_s",
}
"""Names of the comparison for the metrics of a file."""
MODES: Final[Mapping[str, str]] = {
    "closed": "steady_concurrency",
    "burst": "steady_concurrency",
    "open": "steady_rate",
    "offline": "offline_max",
    "batch": "static_batch",
    "prefill": "bs1_prefill",
    "decode": "bs1_decode",
}
"""Mode of the rows by how requests came; a burst is as many clients as requests."""
KEPT_UP: Final = 0.95
"""Share of the rate asked for from which on a run kept up with it. [1]"""
MOST: Final[Mapping[str, int]] = {
    "gpus": 2**20,
    "concurrency": 2**17,
    "requests": 2**20,
    "prompt": 2**24,
    "output": 2**24,
}
"""Largest sizes of a run that are predicted."""
MOST_TOKENS: Final = 2**32
"""Tokens of all answers of a run. [token]"""
_PATH_ENDS: Final = (".json", ".yaml", ".yml")


def check(given: RunOptions) -> None:
    """Refuse unknown names of options with an InputError: they would leave no run predicted."""
    if given.model:
        naming.network(given.model)
    if given.gpu:
        naming.device(given.gpu)
    for option, name in (("weights", given.weights), ("kv", given.kv)):
        with prefixed(f"`{option}`"):
            if name:
                naming.number_format(name, given.engine)


def completed(run: MeasuredRun, given: RunOptions) -> RunScenario:
    """The scenario of a run with what options say of it; DocumentError where it is incomplete.

    What no prediction knows may leave out what it likes: it is listed, and not predicted.
    """
    values = structs.asdict(given)
    stated = {name: value for name, value in values.items() if value not in (None, "")}
    told = _placed(_loaded(replace(_named(run.scenario), **stated), given, run))
    missing = [option for option, lacks in _lacking(told).items() if lacks]
    if missing and not told.beyond:
        raise DocumentError(
            f"the file does not say {', '.join(_WORDS[option] for option in missing)}",
            hint=f"give {', '.join(missing)}",
            where=run.where,
        )
    _check(told, run)
    if not told.beyond:
        _check_degrees(told, run)
    return told


def _placed(told: RunScenario) -> RunScenario:
    """Devices by degrees, or the tensor-parallel degree by devices, where one is not said."""
    stages = told.pp or 1
    if told.gpus is None and told.tp is not None:
        return replace(told, gpus=told.tp * stages)
    if told.tp is None and told.pp is not None and told.gpus and told.gpus % stages == 0:
        return replace(told, tp=told.gpus // stages)
    return told


def _check_degrees(told: RunScenario, run: MeasuredRun) -> None:
    """Refuse degrees that the devices do not make replicas of.

    Attention data parallelism is inside of the tensor-parallel group for some engines and beside it
    for others.
    """
    gpus, stages, ranks = told.gpus or 1, told.pp or 1, told.dp or 1
    group = told.tp or (gpus if stages == 1 else 1)
    inside = group % ranks == 0 and gpus % (group * stages) == 0
    if inside or gpus % (group * stages * ranks) == 0:
        return
    said = {"TP": told.tp, "PP": told.pp, "DP": told.dp}
    named = " × ".join(f"{name} {degree}" for name, degree in said.items() if (degree or 1) > 1)
    raise DocumentError(
        f"{named} on {gpus} GPU{'s' if gpus > 1 else ''}: the degrees do not divide them",
        hint="give `gpus`, `tp`, `pp` and `dp` as they were run",
        where=run.where,
    )


def _check(told: RunScenario, run: MeasuredRun) -> None:
    """Refuse sizes that nobody ran, which would take forever to be simulated."""
    for name, most in MOST.items():
        value = getattr(told, name)
        if value is not None and value > most:
            raise DocumentError(
                f"{name} is {value:,.0f}, more than {most:,}",
                hint="check the file",
                where=run.where,
            )
    tokens = (told.requests or 0) * (told.output or 0.0)
    if tokens > MOST_TOKENS:
        raise DocumentError(
            f"{tokens:,.0f} tokens of answers are more than {MOST_TOKENS:,}",
            hint="check the file",
            where=run.where,
        )


_WORDS: Final[Mapping[str, str]] = {
    "`model`": "the model",
    "`gpu`": "the GPU",
    "`gpus`": "how many GPUs",
    "`engine`": "the engine",
    "`prompt`": "the length of prompts",
    "`output`": "the length of answers",
    "`concurrency`": "how many clients or sequences there were",
}


def _lacking(told: RunScenario) -> dict[str, bool]:
    """Options by whether what they give is missing."""
    alone = told.load in ("prefill", "decode")
    counted = (
        bool(told.concurrency)
        or told.load == "open"
        or (told.load in ("burst", "offline") and bool(told.requests))
    )
    return {
        "`model`": not told.model,
        "`gpu`": not told.gpu,
        "`gpus`": not told.gpus,
        "`engine`": not told.engine,
        "`prompt`": not told.prompt and told.load != "decode",
        "`output`": not told.output and told.load != "prefill",
        "`concurrency`": not told.load or not (alone or counted),
    }


def _named(told: RunScenario) -> RunScenario:
    """Names without the folders of the machine that wrote them: a file names no file of ours."""
    model, gpu = (
        "" if name.lower().endswith(_PATH_ENDS) else name.rstrip("/\\").replace("\\", "/")
        for name in (told.model, told.gpu)
    )
    return replace(told, model=model.rpartition("/")[2], gpu=gpu if "/" not in gpu else "")


def _loaded(told: RunScenario, given: RunOptions, run: MeasuredRun) -> RunScenario:
    """The scenario with its load, where an option says it or a run fell behind its rate."""
    if given.rate is not None:
        return replace(told, load="open")
    if given.concurrency is not None and told.load in ("", "burst", "offline", "open"):
        return replace(told, load="closed", rate=None)
    done = run.get("request_throughput")
    if told.load == "open" and told.concurrency and done and told.rate:
        behind = done < KEPT_UP * told.rate
        return replace(told, load="closed", rate=None) if behind else told
    return told


def row(run: MeasuredRun) -> dict[str, Any]:
    """A run in the columns of `roofline.bench.end_to_end.cases`."""
    told = run.scenario
    burst = told.load == "burst"
    rate, counts = _throughput(run)
    lone = told.load == "decode"
    columns: dict[str, Any] = {
        "engine": told.engine,
        "version": told.engine_version,
        "gpu": told.gpu,
        "model": told.model,
        "family": told.source or run.format,
        "mode": MODES[told.load],
        "n_gpus": told.gpus,
        "tp": told.tp,
        "pp": told.pp,
        "ep": told.ep,
        "attn_dp": told.dp,
        "w_dtype": told.weights,
        "kv_dtype": told.kv,
        "batch": told.requests if burst else told.concurrency,
        "isl": max(told.depth, 1.0) if lone else told.prompt,
        "osl": told.output,
        "requests": told.requests,
        "rate": told.rate,
        "cv": told.cv,
        "spread": told.spread,
        "thr_counts": counts,
        "throughput_tok_s": rate,
    }
    for name in ("ttft", "tpot", "latency"):
        columns[METRICS[name]] = _central(run, name)
    columns["tpot_s"] = columns["tpot_s"] or _central(run, "itl")
    return columns


def _central(run: MeasuredRun, metric: str) -> float | None:
    return run.get(metric) or run.get(metric, "p50")


def _throughput(run: MeasuredRun) -> tuple[float | None, str]:
    """A throughput of tokens, and which tokens it counts."""
    for metric, counts in (
        ("output_throughput", "output"),
        ("total_throughput", "input+output"),
        ("input_throughput", "input"),
    ):
        if value := run.get(metric):
            return value, counts
    done = run.get("request_throughput")
    return (done * (run.scenario.output or 1.0) if done else None), "output"
