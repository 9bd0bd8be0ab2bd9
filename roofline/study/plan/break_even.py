"""How long a network has to be served until inference has cost what its training did."""

from typing import Any, Final

from roofline.cost.textbook.training import training_flops, training_time
from roofline.errors import MissingRateError
from roofline.hardware.machine import Gpu
from roofline.model import parameters
from roofline.serving.running_cost import power
from roofline.study.plan.confirm import Confirmed
from roofline.study.plan.demand import Demand
from roofline.units import SECONDS_PER_HOUR

MFU: Final = 0.4
"""Share of the dense 16-bit peak that training reaches. Assumed."""
UNITS: Final = {"tokens": "token", "days": "day"}


def break_even(done: Confirmed, demand: Demand, tokens: float) -> list[dict[str, Any]]:
    """Output tokens after which inference has cost as much as training, in each currency.

    Training is 6·N·D, inference 2·N for every token that is computed, N the active parameters;
    attention is left out of both. Source: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1.

    Args:
        demand: What is served, whose prompts count with the answers.
        tokens: That the network was trained on. [token]
    """
    kind = done.option.kind
    network, gpu = kind.base.architecture, kind.base.node.gpu
    active = float(parameters.active(network)["all"])
    trained = float(training_flops(active, tokens))
    each = demand.output
    served = 2.0 * active * (float(demand.new_tokens.mean()) + each - 1.0) / each
    rows = [_row("arithmetic", "FLOP", trained, served, demand)]
    peak = _peak(gpu)
    if peak:
        seconds = float(training_time(active, tokens, peak, 1.0, MFU))
        per_s = demand.rate * each
        if gpu.tdp_w:
            watts = float(power(gpu.tdp_w * done.option.gpus, done.utilisation))
            rows.append(_row("energy", "J", seconds * gpu.tdp_w, watts / per_s, demand))
        if done.option.usd_per_hour:
            spent = seconds / SECONDS_PER_HOUR * kind.usd_per_hour
            paid = done.option.usd_per_hour / SECONDS_PER_HOUR / per_s
            rows.append(_row("money", "$", spent, paid, demand))
    return rows


def _peak(gpu: Gpu) -> float:
    for arithmetic in ("bf16", "fp16"):
        try:
            return gpu.rate(arithmetic)
        except MissingRateError:
            continue
    return 0.0


def _row(what: str, unit: str, trained: float, served: float, demand: Demand) -> dict[str, Any]:
    tokens = trained / served
    return {
        "what": what,
        "unit": unit,
        "training": trained,
        "inference_per_token": served,
        "tokens": tokens,
        "days": tokens / (demand.rate * demand.output) / (24.0 * SECONDS_PER_HOUR),
    }
