"""The questions people ask, one function each. They return tables; nothing here prints."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

import roofline
from roofline.cost.deployment import Deployment, Options
from roofline.cost.layout import Layout
from roofline.cost.moe import UNIFORM, Routing
from roofline.errors import InputError, LayoutError, UnknownNameError
from roofline.hardware import catalog as hardware
from roofline.hardware.engine import engine as engine_named
from roofline.hardware.machine import Gpu
from roofline.model import catalog as networks
from roofline.model import parameters, precision
from roofline.model.architecture import Architecture
from roofline.model.changes.settings import setup_of
from roofline.serving import denoising, lecture
from roofline.serving.asking import check_parts, one_of, refuse_unused
from roofline.serving.diffusion import denoise
from roofline.serving.result import result_of
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.study import compare as variants
from roofline.study.figures import Conditions
from roofline.table import Derivation, Result

DEFAULT_MODEL: Final = "llama-3.1-8b"
DEFAULT_GPU: Final = "h100-sxm"
MOST_GPUS: Final = 2**20
MOST_TRAINED: Final = 2**63

Convention = Literal["engine", "textbook"]


def analyze(
    model: str | Architecture = DEFAULT_MODEL,
    gpu: str | Gpu = DEFAULT_GPU,
    *,
    gpus: int | None = None,
    tp: int | None = None,
    batch: int = 16,
    prefill_batch: int = 0,
    prompt: int = 2048,
    prefix_hit: float = 0.0,
    output: int = 256,
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    convention: Convention = "engine",
    kv_cache: bool = True,
    attention: Literal["flash", "naive"] = "flash",
    mask: Literal["causal", "square"] = "causal",
    mla: Literal["auto", "expanded", "absorbed"] = "auto",
    routing: Routing = UNIFORM,
    denoising_steps: int = 0,
    block: int = 0,
    memory_utilization: float | None = None,
    usd_per_hour: float | None = None,
) -> Result:
    """Say what a static batch costs: memory, TTFT, TPOT, throughput, price, and what binds it.

    Parameters
    ----------
    model
        Catalog name, hub id, a ``config.json`` or its folder, or an architecture.
    gpu
        Catalog name, a YAML file, or a machine.
    gpus, tp
        Devices, and how many of them share a layer; groups of ``tp`` are replicas. [1]
    batch, prefill_batch
        Sequences of one replica; prompts prefilled in one step, 0 for all. [1]
    prompt, output
        Tokens of each prompt and answer. [token]
    prefix_hit
        Share of the prompt that is cached already. [1]
    weights, kv
        Number formats; None for that of the checkpoint, ``"auto"`` for that of the activations.
    engine
        Whose memory policy: ``"vllm"``, ``"trtllm"``, ``"sglang"``, ``"ideal"``.
    convention
        ``"engine"`` counts what an engine does; ``"textbook"`` gives the lecture's closed forms.
    kv_cache
        False to compute the whole context again for every token.
    attention, mask, mla
        Fused or not; pairs that count as work; form of latent attention.
    routing
        How tokens spread over experts.
    denoising_steps, block
        Steps of a diffusion language model for the whole answer, and tokens that are denoised
        together; 0 for token by token, and for the whole answer. [1]
    memory_utilization
        Share of device memory; None for the engine's default. [1]
    usd_per_hour
        Price of one device; None for the assumed one. [$/h]

    Returns
    -------
    Result
        Tables ``headline``, ``ops``, ``memory``, ``capacity``, ``what_if``, ``batch_curve``,
        ``roofs``, ``assumptions``; derivations by metric. Closed forms and denoising have
        ``headline`` only.

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    one_of("convention", convention, ("engine", "textbook"))
    one_of("attention", attention, ("flash", "naive"))
    one_of("mask", mask, ("causal", "square"))
    one_of("mla", mla, ("auto", "expanded", "absorbed"))
    network = networks.architecture(model) if isinstance(model, str) else model
    device = hardware.gpu(gpu) if isinstance(gpu, str) else gpu
    if usd_per_hour is not None:
        device = _priced(device, usd_per_hour)
    workload = Workload(batch, prompt, output, prefill_batch, prefix_hit, kv_cache)
    degree, replicas = _layout(gpus, tp)
    _check_share(memory_utilization)
    check_parts(network, mla, routing)
    unpriced = {
        "--prefill-batch": prefill_batch != 0,
        "--prefix-hit": prefix_hit != 0,
        "replicas (--gpus beyond --tp)": replicas > 1,
        "--price": usd_per_hour is not None,
    }
    if convention == "textbook":
        refuse_unused(
            "--convention textbook",
            unpriced
            | {
                "--no-kv-cache": not kv_cache,
                "--attention naive": attention == "naive",
                "--mask square": mask == "square",
                "--memory-utilization": memory_utilization is not None,
                "--denoising-steps": denoising_steps != 0,
            },
        )
        held = precision.named(weights or _default_format(network))
        cache = held if kv == "auto" else precision.named(kv)
        return lecture.analyze(network, device, workload, held, cache, degree)
    stored = precision.named(weights or _default_format(network)).name
    whole = weights is not None or stored != network.weight_format
    checkpoint = network.stored_as(stored) if whole else network
    kv_format = (checkpoint.kv_format or kv) if kv == "auto" else kv
    deployment = Deployment(
        architecture=checkpoint,
        node=hardware.default_node(device, degree),
        precision=precision.resolve(
            weights or _default_format(network),
            kv_format,
            device,
            also=parameters.formats(checkpoint),
        ),
        engine=engine_named(engine),
        layout=Layout(tp=degree),
        options=Options(attention=attention, mask=mask, mla=mla, routing=routing),
    )
    if not denoising_steps:
        refuse_unused("decoding token by token", {"--block": block != 0})
    if denoising_steps:
        refuse_unused("--denoising-steps", unpriced)
        denoised = denoise(
            deployment,
            batch=batch,
            prompt=prompt,
            output=output,
            steps=denoising_steps,
            block=block or None,
            cached=kv_cache and block > 0,
            utilization=memory_utilization,
        )
        return denoising.result(denoised, roofline.__version__)
    if checkpoint.is_encoder:
        workload = replace(workload, output=1)
    priced = static_batch(deployment, workload, utilization=memory_utilization)
    return result_of(priced, replicas)


def compare(
    model: str | Architecture,
    changes: Sequence[str],
    gpu: str | Gpu = DEFAULT_GPU,
    *,
    training_tokens: float | None = None,
    gpus: int | None = None,
    tp: int | None = None,
    batch: int = 16,
    prefill_batch: int = 0,
    prompt: int = 2048,
    prefix_hit: float = 0.0,
    output: int = 256,
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    convention: Convention = "engine",
    kv_cache: bool = True,
    attention: Literal["flash", "naive"] = "flash",
    mask: Literal["causal", "square"] = "causal",
    mla: Literal["auto", "expanded", "absorbed"] = "auto",
    routing: Routing = UNIFORM,
    memory_utilization: float | None = None,
    usd_per_hour: float | None = None,
) -> Result:
    """Price variants of a deployment beside it, and say what each change moved and why.

    Accuracy is out of scope.

    Parameters
    ----------
    model, gpu
        The base, as for `analyze`.
    changes
        One text for each variant: ``"gqa=8"``, ``"window=1024,weights=int4"``; names are those of
        `roofline.model.changes.settings.CHANGES`.
    training_tokens
        Tokens that variants which need training are trained on; None to leave that out. [token]
    gpus, tp, batch, prefill_batch, prompt, prefix_hit, output, weights, kv, engine, convention, \
    kv_cache, attention, mask, mla, routing, memory_utilization, usd_per_hour
        As for `analyze`; the price is that of the base's GPU.

    Returns
    -------
    Result
        Tables ``variants`` (the base first), ``factors``, ``why``, ``training``.

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    if training_tokens is not None and not 1 <= training_tokens <= MOST_TRAINED:
        raise InputError(
            f"training tokens are {training_tokens:g}", hint="give their number, like 94e9"
        )
    network = networks.architecture(model) if isinstance(model, str) else model
    device = hardware.gpu(gpu) if isinstance(gpu, str) else gpu
    if usd_per_hour is not None:
        device = _priced(device, usd_per_hour)
    degree, _ = _layout(gpus, tp)
    _check_share(memory_utilization)
    return variants.compare(
        setup_of(network, device, weights=weights or "", kv=kv, tp=degree, batch=batch),
        changes,
        Conditions(
            workload=Workload(batch, prompt, output, prefill_batch, prefix_hit, kv_cache),
            engine=engine_named(engine),
            options=Options(attention=attention, mask=mask, mla=mla, routing=routing),
            gpus=gpus,
            utilization=memory_utilization,
            convention=convention,
        ),
        training_tokens=training_tokens,
        version=roofline.__version__,
    )


def explain(result: Result, metric: str) -> Derivation:
    """Derivation of a metric of a result: formula, numbers put in, source of each.

    Raises
    ------
    UnknownNameError
        The result has no derivation of that name.
    """
    if metric in result.derivations:
        return result.derivations[metric]
    raise UnknownNameError(
        f"nothing called {metric!r} to explain",
        hint=f"metrics: {', '.join(result.derivations)}",
    )


def _default_format(network: Architecture) -> str:
    """Format of the checkpoint; engines load fp32 checkpoints as 16 bits."""
    return "bf16" if network.weight_format == "fp32" else network.weight_format


def _priced(gpu: Gpu, usd_per_hour: float) -> Gpu:
    if not 0 <= usd_per_hour < MOST_GPUS:
        raise InputError(
            f"price is {usd_per_hour:g} $/h", hint="give dollars for a device and hour"
        )
    facts = {key: fact for key, fact in gpu.facts.items() if key != "price.per_hour"}
    return replace(gpu, usd_per_hour=usd_per_hour, facts=facts)


def _layout(gpus: int | None, tp: int | None) -> tuple[int, int]:
    """Tensor-parallel degree and replicas."""
    for name, value in (("gpus", gpus), ("tp", tp)):
        if value is not None and not 1 <= value <= MOST_GPUS:
            raise InputError(f"{name} is {value}", hint=f"give a number from 1 to {MOST_GPUS:,}")
    degree = tp or gpus or 1
    whole = gpus or degree
    if whole % degree:
        raise LayoutError(
            f"{whole} GPUs cannot be divided into groups of {degree}",
            hint="make --gpus a multiple of --tp",
        )
    return degree, whole // degree


def _check_share(share: float | None) -> None:
    if share is not None and not 0 < share <= 1:
        raise InputError(
            f"memory utilization is {share:g}", hint="give a share above 0 and up to 1, like 0.9"
        )
