"""Kernels for the emulator, each built once for all processes that test."""

import os
from pathlib import Path

import pytest

from tests.microbench.emulation import compiler


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of built kernels; without g++ the tests that need it say so and skip."""
    if compiler() is None:
        pytest.skip("no g++ on the path: the CUDA kernels' results were NOT checked")
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "kernels"
    folder.mkdir(exist_ok=True)
    return folder
