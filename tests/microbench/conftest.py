"""The emulator, built once per session."""

from pathlib import Path

import pytest

from tests.microbench.emulation import compiler


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of built kernels; without g++ the tests that need it say so and skip."""
    if compiler() is None:
        pytest.skip("no g++ on the path: the CUDA kernels' results were NOT checked")
    return tmp_path_factory.mktemp("kernels")
