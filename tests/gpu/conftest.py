"""Tests of this folder run where they are asked for (``pytest -m gpu``) and there is a GPU."""

import os

import pytest

from roofline.bench.gpu.device import CudaDevice, device
from roofline.errors import MissingEnvironmentError


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out of runs that do not name their marker."""
    if "gpu" in str(config.getoption("markexpr")):
        return
    left_out = [item for item in items if item.get_closest_marker("gpu")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def gpu() -> CudaDevice:
    """The first GPU; memory without a pool where ROOFLINE_POOL says so: every overrun is seen."""
    try:
        found = device()
        if os.environ.get("ROOFLINE_POOL") == "off":
            found.cupy.cuda.set_allocator(None)
        return found
    except MissingEnvironmentError as error:
        pytest.skip(f"{error.told}: {error.hint}")
