"""Replicas on other GPUs beside those of a simulation, behind the same router."""

import re
from typing import Final

from roofline.api import setting
from roofline.api.parameters import Simulation
from roofline.api.question import refuse_unused
from roofline.api.setting import check_groups
from roofline.cost.deployment import Options
from roofline.cost.layout import parse
from roofline.errors import InputError, prefixed
from roofline.model.architecture import Architecture
from roofline.serving.requests import Requests
from roofline.serving.run.serve import OtherReplicas
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.server import Asked, server_of

HINT: Final = "write GPU, layout and number, as in l40s tp1 x3, b200-sxm"
_PART: Final = re.compile(r"([\w./-]+)(?: +(?!x *\d)([a-z]\S*))?(?: +x *(\d+))?")


def spelled(asked: str) -> tuple[tuple[str, str, int], ...]:
    """GPU, layout and number of replicas of each kind. [1]

    Examples:
        >>> spelled("l40s x3, h100-sxm tp2")
        (('l40s', 'tp1', 3), ('h100-sxm', 'tp2', 1))
    """
    out = []
    for part in (each.strip() for each in asked.split(",")):
        found = _PART.fullmatch(part)
        # Python refuses to convert thousands of digits.
        number = int((found[3] or "1")[:9]) if found else 0
        if found is None or not 1 <= number <= setting.MOST_GPUS:
            raise InputError(f"replicas {part!r:.40} beside others", hint=HINT)
        out.append((found[1], found[2] or "tp1", number))
    return tuple(out)


def others(
    asked: Simulation, network: Architecture, options: Options, wanted: Asked, made: Requests
) -> tuple[OtherReplicas, ...]:
    """Replicas that are asked for beside the first ones, with the same formats and engine.

    Args:
        asked: Question.
        network, options: Network, and how it is run.
        wanted: Settings of each server.
        made: Requests.

    Raises:
        RooflineError: A word, a GPU or a layout has no meaning, or one has no room.
    """
    refuse_unused(
        "replicas of several kinds",
        {
            "`draft`": bool(asked.draft),
            "`denoising_steps`": asked.denoising_steps > 0,
            "`scaling`": bool(asked.scaling),
            "`max_loras`": options.lora.moves,
            "`cache_pool`": wanted.pool_bytes > 0,
            "`cache_curve`": asked.cache_curve,
            "`pue`": setting.facility_of(asked) is not None,
        },
    )
    out = []
    for gpu, layout, number in spelled(asked.beside):
        with prefixed(f"{gpu} beside"):
            device, box = setting.machine_of(gpu, None, None)
            deployment = setting.deployed_as(
                asked, network, device, box, parse(layout), options=options
            )
            check_groups(asked.routing, asked.two_batch, deployment)
            deployment = setting.profiled(deployment, asked.profile)
            server = server_of(deployment, wanted, made, asked.memory_utilization)
            prices = step_prices(deployment, sequences=server.max_sequences, longest=server.longest)
        out.append(OtherReplicas(deployment, prices, server, number))
    return tuple(out)
