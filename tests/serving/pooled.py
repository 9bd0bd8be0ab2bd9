"""Instances of pools for prefill and decode, and times of their phases."""

from typing import Any

from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.layout import parse
from roofline.hardware.machine import Link
from roofline.records import replace
from roofline.serving.pools import PoolTimes
from tests.serving.deployments import on


def laid_out(layout: str, model: str = "llama-3.1-8b", device: str = "h100-sxm") -> Deployment:
    return replace(on(model, device), layout=parse(layout))


def networked(deployment: Deployment, network: Link | None) -> Deployment:
    return replace(deployment, node=replace(deployment.node, network=network))


def phases(**given: float) -> PoolTimes:
    usual: dict[str, Any] = {
        "prefill_s": 0.5,
        "transfer_s": 0.0,
        "step_s": 0.01,
        "prompt_s": 0.5,
        "answer_s": 0.1,
        "send_s": 0.0,
        "receive_s": 0.0,
    }
    return PoolTimes(output=2, **{**usual, **given})


SECONDS = st.floats(0.01, 100.0)
PHASES = st.builds(
    phases,
    prompt_s=SECONDS,
    answer_s=SECONDS,
    send_s=st.just(0.0) | SECONDS,
    receive_s=st.just(0.0) | SECONDS,
)
