"""What shipped calibrations say of measured kernels, rows that they were fitted to or others."""

from dataclasses import dataclass

import numpy as np

from roofline.bench.kernel_rows import Group
from roofline.bench.shipping.files import fit_of, labels
from roofline.bench.shipping.variants import label_of
from roofline.cost.calibration.kernel import Found, Kernel, nearest
from roofline.cost.kernels.calibrated import predict
from roofline.cost.work import Array
from roofline.errors import MissingRateError
from roofline.hardware.catalog import gpu


@dataclass(frozen=True, slots=True)
class Predicted:
    """Time of each row [s], its log standard deviation [1], and which fit says so."""

    seconds: Array
    log_sd: Array
    found: Found


def predicted(kind: str, group: Group) -> Predicted:
    """Times of a group of rows by the shipped fit that is nearest to it.

    Parameters
    ----------
    kind
        Of measurements.
    group
        Rows of one device, library and format.

    Raises
    ------
    MissingRateError
        No kernel of that format was measured on a device like it.
    """
    wanted = label_of(kind, group.name)
    device = gpu(group.name["gpu"])
    found = nearest(labels(), fit_of, device, wanted.provider, wanted.kind, (wanted.variant,))
    if found is None:
        raise MissingRateError(
            f"no {wanted.kind} of {wanted.variant} was measured on a device like {device.name}",
            hint="add --cross-validate, or calibrate the device: roofline calibrate",
        )
    fit = found.fit
    assert isinstance(fit, Kernel)
    time, own, _ = predict(fit.model, group.dims, group.machine)
    return Predicted(time, np.hypot(own, found.spread), found)
