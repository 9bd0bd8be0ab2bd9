"""Variants of a deployment side by side."""

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

import roofline
from roofline.api.setting import (
    Attending,
    Convention,
    Degrees,
    Form,
    Masking,
    check_share,
    layout_of,
    machine_of,
    network_of,
    options_of,
)
from roofline.bench.calibrations import AUTO, calibration_of
from roofline.cost.measured import Calibration
from roofline.cost.moe import UNIFORM, Routing
from roofline.errors import InputError
from roofline.hardware.engine import engine as engine_named
from roofline.hardware.machine import Gpu
from roofline.model.architecture import Architecture
from roofline.model.changes.settings import setup_of
from roofline.serving.asking import one_of
from roofline.serving.workload import Workload
from roofline.study import compare as variants
from roofline.study.figures import Conditions
from roofline.table import Result

MOST_TRAINED: Final = 2**63


def compare(
    model: str | Architecture,
    changes: Sequence[str],
    gpu: str | Gpu | None = None,
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
    calibration: str = AUTO,
    kv_cache: bool = True,
    attention: Attending = "flash",
    mask: Masking = "causal",
    mla: Form = "auto",
    routing: Routing = UNIFORM,
    cuda_graphs: bool = True,
    memory_utilization: float | None = None,
    usd_per_hour: float | None = None,
    rank: Literal["steady", "static"] = "steady",
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
    calibration, kv_cache, attention, mask, mla, routing, cuda_graphs, \
    memory_utilization, usd_per_hour
        As for `analyze`; the price is that of the base's GPU.
    rank
        ``"steady"``: one prompt on an idle server, and a batch that is kept full; ``"static"``: a
        batch whose prompts all arrive at once.

    Returns
    -------
    Result
        Tables ``variants`` (the base first), ``factors``, ``why``, ``training``.

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    one_of("rank", rank, ("steady", "static"))
    if training_tokens is not None and not 1 <= training_tokens <= MOST_TRAINED:
        raise InputError(
            f"training tokens are {training_tokens:g}", hint="give their number, like 94e9"
        )
    network = network_of(model)
    device, _ = machine_of(gpu, None, usd_per_hour)
    layout, _ = layout_of(gpus, Degrees(tp=tp))
    degree = int(layout.tp)
    check_share(memory_utilization)
    return variants.compare(
        setup_of(network, device, weights=weights or "", kv=kv, tp=degree, batch=batch),
        changes,
        Conditions(
            workload=Workload(batch, prompt, output, prefill_batch, prefix_hit, kv_cache),
            engine=engine_named(engine),
            options=options_of(
                attention=attention,
                mask=mask,
                mla=mla,
                routing=routing,
                cuda_graphs=cuda_graphs,
            ),
            gpus=gpus,
            utilization=memory_utilization,
            convention=convention,
            calibrate=partial(_calibration, calibration, engine),
            rank=rank,
        ),
        training_tokens=training_tokens,
        version=roofline.__version__,
    )


def _calibration(asked: str, engine: str, device: Gpu) -> Calibration | None:
    return calibration_of(asked, device, engine)
