"""Energy of requests, counted operator by operator, and power beside what others measured."""

from typing import Any

import pytest

from roofline.api import setting
from roofline.cost.deployment import Options
from roofline.cost.layout import Layout
from roofline.serving.running_cost import FigureRange, request_energy
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.steady import steady_state
from roofline.serving.workload import Workload
from tests.serving.deployments import on

FLOP, BYTE = 2.0 * 700.0 / 989.4e12, 0.15 * 700.0 / 3.35e12
"""Energy of a FLOP of bf16 and of a byte of an H100. [J]"""


def batch_of(size: int = 8, **layout: Any) -> StaticBatch:
    return static_batch(on(layout=Layout(**layout)), Workload(size, 500, 100))


def counted(batch: StaticBatch, phase: str) -> float:
    """Energy of a step on one device by its counts. [J]"""
    ops = [each.op for each in getattr(batch, phase).values()]
    total: float = sum(
        (float(op.work.flops) * FLOP + float(op.work.hbm_bytes) * BYTE) * op.repeat for op in ops
    )
    return total


def test_decode_takes_the_picojoules_of_its_flops_and_bytes() -> None:
    batch = batch_of()
    found = request_energy(batch)
    assert found.decode_j == pytest.approx(counted(batch, "decode") * 99 / 8, rel=1e-3)
    assert found.decode_units_w == pytest.approx(counted(batch, "decode") / batch.tpot_s, rel=1e-3)


def test_prefill_is_at_the_limit_of_the_board_and_decode_is_not() -> None:
    found = request_energy(batch_of(16)).phases
    assert found["prefill"].value == pytest.approx(700.0)
    assert 245.0 < found["decode"].value < 450.0
    assert found["decode"].low < found["decode"].value < found["decode"].high <= 700.0


def test_two_devices_take_what_one_does_and_the_wires() -> None:
    one, two = (request_energy(batch_of(tp=degree)) for degree in (1, 2))
    assert one.decode_j < two.decode_j < 1.2 * one.decode_j


def test_stages_of_a_pipeline_take_what_one_device_does() -> None:
    # Each micro-batch of four reads all weights: twice those of one batch of eight.
    one, piped = request_energy(batch_of(4)), request_energy(batch_of(8, pp=2))
    assert piped.decode_j == pytest.approx(one.decode_j, rel=0.1)


def test_phases_alone_are_the_whole_together() -> None:
    found = request_energy(batch_of())
    floor = 245.0
    parts = [found.power(1.0, 1.0, phase).value - floor for phase in ("prefill", "decode")]
    assert sum(parts) == pytest.approx(found.power(1.0).value - floor)


def test_a_server_without_requests_idles() -> None:
    assert request_energy(batch_of()).power(0.0, 0.0) == FigureRange(105.0, 105.0, 105.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clients", "watts"), [(1, 304), (4, 330), (16, 435), (32, 507), (64, 557), (128, 583)]
)
def test_power_against_batch_is_within_a_fifth_of_measurements(clients: int, watts: float) -> None:
    """H100 SXM with vLLM at batches of 1 to 128, of a network and lengths that are not stated.

    Source: Hassan et al. 2026 (arXiv 2602.05116), figure 2, as read off by vLLM's semantic router,
    docs/fleet-sim/power-model.md; Chung et al. 2026 (arXiv 2601.22076): 300 W at 1, 600 at 128.
    """
    assert _steady("llama-3.1-8b", 1, clients, 500, 500) == pytest.approx(watts, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("clients", "busy", "watts"), [(4, 0.722, 222), (8, 0.807, 253)])
def test_decode_across_eight_boards_is_within_a_tenth_of_measurements(
    clients: int, busy: float, watts: float
) -> None:
    """gpt-oss-120b on 8 H100, prompts of 1,024 and answers of 8,192 tokens, by nvidia-smi.

    Source: github.com/SemiAnalysisAI/InferenceX/issues/828, with the share of the time in which
    GPUs were in use.
    """
    found = busy * _steady("gpt-oss-120b", 8, clients, 1024, 8192) + (1.0 - busy) * 105.0
    assert found == pytest.approx(watts, rel=0.1)


def _steady(model: str, devices: int, clients: int, prompt: int, output: int) -> float:
    network, (device, _) = setting.network_of(model), setting.machine_of("h100-sxm", None, None)
    deployment = setting.make_deployment(
        network, device, None, Layout(tp=devices), calibration="auto", options=Options()
    )
    batch = static_batch(deployment, Workload(clients, prompt, output))
    rate = steady_state(batch).output_tok_s / output
    return request_energy(batch).power(rate).value
