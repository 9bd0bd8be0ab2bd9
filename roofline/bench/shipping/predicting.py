"""What shipped calibrations say of measured kernels, rows that they were fitted to or others."""

import numpy as np

from roofline.bench.kernel_rows import Group
from roofline.bench.left_out import Predicted
from roofline.bench.shipping.files import fit_of, labels
from roofline.bench.shipping.variants import label_of
from roofline.cost.calibration.kernel import nearest
from roofline.cost.kernels.calibrated import predict
from roofline.errors import MissingRateError
from roofline.hardware.catalog import gpu


def predicted(kind: str, group: Group) -> Predicted:
    """Times of a group of rows by the shipped fit that is nearest to it.

    Args:
        kind: Of measurements.
        group: Rows of one device, library and format.

    Raises:
        MissingRateError: No kernel of that format was measured on a device like it.
    """
    wanted = label_of(kind, group.name)
    device = gpu(group.name["gpu"])
    variants = (wanted.variant,)
    found = nearest(
        labels(), fit_of, device, wanted.provider, wanted.kind, variants, in_steps=False
    )
    if found is None:
        raise MissingRateError(
            f"no {wanted.kind} of {wanted.variant} was measured on a device like {device.name}",
            hint="add --cross-validate, or calibrate the device: roofline calibrate",
        )
    time, own, _ = predict(found.fit.model, group.dims, group.machine)
    label = found.fit.label
    basis = f"{label.provider} on {label.device}" + ", transferred" * found.foreign
    return Predicted(time, np.hypot(own, found.spread), basis)
