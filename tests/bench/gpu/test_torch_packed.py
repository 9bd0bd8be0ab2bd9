"""Arrays of products with 4-bit weights: as many bytes as the work says."""

import numpy as np

from roofline.bench.backend import Sizes, bytes_of
from roofline.bench.gpu.torch_packed import PACKING
from roofline.bench.probe import find, points


def test_weights_and_scales_have_the_bytes_that_the_work_counts() -> None:
    probe = find("w4a16-torch").probe
    for point in points(probe):
        sizes = Sizes()
        probe.arguments(sizes, point.at)
        read = 2 * point.at["m"] * point.at["k"]
        assert bytes_of(sizes.numbers) - read == probe.work(point.at).weight_bytes
    assert np.prod(PACKING[2:]) * 8 == np.prod(PACKING[:2])
