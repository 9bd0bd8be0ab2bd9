"""A GPU that is made up, for whatever looks for one."""

import pytest

from tests.bench.gpu.fake_gpu import FakeGpu, installed
from tests.bench.gpu.planted import seconds


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """An H100 whose kernels take the planted times."""
    made = FakeGpu(seconds)
    installed(monkeypatch, made)
    return made
