"""Which kernel, and of which shape, an operator asks measurements for."""

import numpy as np
import pytest

from roofline.api.setting import deployed
from roofline.cost.calibration.wires import payload_of
from roofline.cost.deployment import Deployment
from roofline.cost.layout import SINGLE, Layout
from roofline.cost.roof import roof
from roofline.cost.step import Group, decode, prefill
from roofline.cost.work import Op
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture
from roofline.serving.stages import through


def deployment(model: str, device: str, layout: Layout = SINGLE) -> Deployment:
    return deployed(architecture(model), gpu(device), None, layout, calibration="auto")


def first_stage(given: Deployment, group: Group) -> dict[str, Op]:
    return {name: op for name, (op, _) in through(given, group)[0].ops.items()}


@pytest.mark.parametrize("layout", [Layout(tp=8, pp=2), Layout(tp=4, pp=2)])
def test_what_is_sent_to_another_node_is_not_priced_as_inside_one(layout: Layout) -> None:
    given = deployment("llama-3.1-70b", "h100-sxm", layout)
    op = first_stage(given, decode(16.0, 2048.0))["send"]
    inside = float(op.work.network_bytes) == 0.0
    assert inside == (layout.devices <= 8)
    assert (payload_of(op) is not None) == inside
    assert (roof(op, given).measured is not None) == inside


@pytest.mark.parametrize("device", ["h100-pcie", "h100-nvl", "a100-pcie"])
def test_bridges_of_pairs_are_not_taken_for_a_switch(device: str) -> None:
    """More devices than a bridge joins talk through PCIe, or over a part of the wires each."""
    given = deployment("llama-3.1-70b", device, Layout(tp=4))
    for group in (prefill(1.0, 2048.0), decode(16.0, 2048.0)):
        for op in first_stage(given, group).values():
            if op.kind == "collective":
                time = roof(op, given)
                assert time.measured is None, op.name
                assert float(time.seconds) == float(np.max(op.wire_s)), op.name
