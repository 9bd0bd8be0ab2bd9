"""Time of a step, for tests that need nothing else of it."""

from collections.abc import Mapping

from roofline.cost.deployment import Deployment
from roofline.cost.roof import measured_each, parts, roofed
from roofline.cost.work import Number, Op


def seconds(ops: Mapping[str, Op], deployment: Deployment) -> Number:
    """Time of a step: every operator overlapped in itself, one after the other. [s]"""
    gpu, gains = deployment.node.gpu, deployment.kernel_gains
    known = measured_each(list(ops.values()), deployment)
    timed = [
        (op, roofed(op, gpu, float(op.repeat), told, gains))
        for op, told in zip(ops.values(), known, strict=True)
    ]
    return parts(timed).seconds(deployment)
