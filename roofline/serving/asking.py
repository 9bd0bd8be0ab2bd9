"""Options that a question does not take: refused by name, never ignored."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from roofline.cost.deployment import Deployment
from roofline.cost.moe import Routing
from roofline.errors import InputError
from roofline.model.architecture import Architecture
from roofline.table import USUAL_KERNELS
from roofline.version import __version__

Objective = Literal["latency", "throughput", "cost"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("latency", "throughput", "cost")
"""Objectives that a layout is chosen for."""


def one_of(name: str, value: object, allowed: Collection[str]) -> None:
    """Refuse a word that is not one of those allowed."""
    if value not in allowed:
        raise InputError(f"{name} is {value!r:.40}", hint=f"it is one of {', '.join(allowed)}")


def refuse_unused(question: str, given: Mapping[str, bool]) -> None:
    """Refuse options that are given and would change nothing, by name, with an InputError."""
    unused = [option for option, there in given.items() if there]
    if unused:
        raise InputError(
            f"{question} does not take {', '.join(unused)}",
            hint="leave out what would change nothing, or ask without it",
        )


def asked_of(deployment: Deployment) -> dict[str, Any]:
    """Metadata of a result about a deployment: what answered, and what was asked about."""
    assumed = deployment.basis == "assumed"
    return {
        **({"calibration": USUAL_KERNELS} if assumed else {}),
        "version": __version__,
        "model": deployment.architecture.name,
        "gpu": deployment.node.gpu.name,
        "gpu_title": deployment.node.gpu.title,
        "gpus": deployment.devices,
        "layout": deployment.layout.spelled,
        "engine": deployment.engine.name,
        "weights": deployment.weights_name,
        "kv": deployment.precision.kv.name,
    }


def check_decodes(network: Architecture, *, denoised: bool = False) -> None:
    """Refuse a network that does not answer token by token, or block by block where it denoises."""
    if network.is_encoder or not (network.causal or denoised):
        raise InputError(
            f"{network.name} does not decode token by token",
            hint="give a network that decodes; roofline analyze prices a batch of this one",
        )
    if network.encoder:
        raise InputError(
            f"{network.name} reads its prompts with an encoder, and is priced in batches alone",
            hint="roofline analyze prices a batch of it",
        )


def check_parts(network: Architecture, mla: str, routing: Routing) -> None:
    """Refuse options about parts that the network does not have."""
    refuse_unused(
        network.name,
        {
            "`mla`": mla != "auto" and not network.latent_forms,
            "`routing`": (routing.skew > 0 or bool(routing.loads)) and not network.mixtures,
            "`redundant`": routing.redundant > 0 and not network.mixtures,
        },
    )


def check_groups(asked: Routing, two_batch: bool, *deployments: Deployment) -> None:
    """Refuse options of experts on several groups of devices where no deployment has these."""
    layouts = " and ".join(dict.fromkeys(each.layout.spelled for each in deployments))
    exchanges = any(each.exchanges for each in deployments)
    spread = any(each.layout.ep > 1 for each in deployments)
    refuse_unused(
        f"a layout of {layouts}, whose tokens go to no experts elsewhere,",
        {
            "`two_batch`": two_batch and not exchanges,
            "`redundant`": asked.redundant > 0 and not spread,
        },
    )
