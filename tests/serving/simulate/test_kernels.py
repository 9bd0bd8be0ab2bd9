"""Kernels that were looked up before take what they take when they are asked about alone."""

import numpy as np
import pytest

from roofline.api.setting import make_deployment
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import IDEAL, KernelGains
from roofline.cost.layout import parse
from roofline.cost.step import SequenceGroup
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture
from roofline.records import replace
from roofline.serving.simulate.kernels import StepKernels, StepPart, attends, rest
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.stages import laid_out, seconds_of

GAINS = KernelGains(experts=1.1, interconnect=0.9, start=0.8, start_low=0.6, start_pass=0.3)


def measured(model: str, layout: str) -> Deployment:
    return make_deployment(
        architecture(model), gpu("h100-sxm"), None, parse(layout), calibration="auto"
    )


def arrays(table: StepPrices) -> list[Array]:
    names = [name for name in StepPrices.__struct_fields__ if name != "engine"]
    return [np.asarray(getattr(table, name)) for name in names]


@pytest.mark.parametrize(
    ("model", "layout"), [("llama-3.1-8b", "tp2"), ("gpt-oss-120b", "tp2"), ("llama-2-7b", "pp2")]
)
def test_a_point_takes_the_same_whatever_was_asked_before(model: str, layout: str) -> None:
    deployment = measured(model, layout)
    kernels = StepKernels(deployment, deployment.kernel_gains)
    for contexts in (np.array([64.0, 4096.0]), np.array([7.0, 64.0, 300.0, 9000.0])):
        group = SequenceGroup(np.full(len(contexts), 16.0), 1.0, contexts)
        for part, wanted in (("attention", attends), ("others", rest)):
            (direct,) = seconds_of([laid_out(deployment, group).some(wanted)])
            ours = kernels.seconds(StepPart(part, group, wanted))
            for one, other in zip(ours, direct, strict=True):
                assert np.array_equal(one, np.broadcast_to(other, contexts.shape))


@pytest.mark.slow
def test_tables_of_other_gains_are_those_of_a_deployment_that_has_them() -> None:
    deployment = measured("gpt-oss-120b", "tp2")
    step_prices(deployment, sequences=16, longest=2048)
    after = step_prices(deployment, sequences=16, longest=2048, gains=GAINS, engine=IDEAL)
    alone = replace(deployment, engine=replace(deployment.engine, name="another"))
    fresh = step_prices(alone, sequences=16, longest=2048, gains=GAINS, engine=IDEAL)
    for one, other in zip(arrays(after), arrays(fresh), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_gains_that_no_kernel_feels_need_no_table() -> None:
    deployment = measured("llama-3.1-8b", "tp1")
    before = step_prices(deployment, sequences=16, longest=2048)
    gains = replace(deployment.kernel_gains, experts=2.0, interconnect=3.0, start_experts=4.0)
    after = step_prices(deployment, sequences=16, longest=2048, gains=gains)
    assert after.decode_s is before.decode_s
    felt = replace(deployment.kernel_gains, start=2.0)
    slower = step_prices(deployment, sequences=16, longest=2048, gains=felt)
    assert slower.decode_s[0, 0] > before.decode_s[0, 0]
