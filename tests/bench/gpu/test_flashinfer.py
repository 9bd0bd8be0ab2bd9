"""Arrays of FlashInfer's probes: as many bytes as the work says, and a table of all pages."""

import numpy as np
import pytest

from roofline.bench.backend import Sizes, bytes_of
from roofline.bench.gpu.flashinfer_attention import _table as table
from roofline.bench.gpu.flashinfer_attention import starts
from roofline.bench.gpu.paged import PAGE
from roofline.bench.probe import find, points


@pytest.mark.parametrize("kernel", ["decode", "prefill", "mla", "mla-prefill"])
def test_arrays_have_the_bytes_that_the_work_counts(kernel: str) -> None:
    """Contexts are of whole pages; a prompt's keys are read once."""
    probe = find(f"flashinfer-{kernel}").probe
    for point in points(probe):
        sizes = Sizes()
        probe.arguments(sizes, point.at)
        work = probe.work(point.at)
        held = bytes_of(sizes.numbers) + sizes.room
        assert held == pytest.approx(work.kv_bytes + work.activation_bytes, rel=1e-3)


def test_a_table_has_every_page_once_and_the_last_ones_tokens() -> None:
    begins, order, last = table(3, 70, PAGE)
    assert begins.tolist() == [0, 5, 10, 15]
    assert sorted(order.tolist()) == list(range(15))
    assert last.tolist() == [6, 6, 6]
    assert table(2, 64, PAGE)[2].tolist() == [16, 16]
    np.testing.assert_array_equal(starts(2, 7), [0, 7, 14])
