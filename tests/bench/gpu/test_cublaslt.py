"""Descriptors of every arithmetic type, which need the library and no device."""

import ctypes
import os
from typing import Any

import pytest

from roofline.bench.gpu import cublaslt
from roofline.bench.gpu.cublaslt import TYPES, AlgorithmChoice, Arithmetic, LinearProduct
from roofline.errors import InputError, MissingEnvironmentError
from tests.bench.gpu.fake_gpu import FakeGpu, installed
from tests.bench.gpu.planted import seconds


@pytest.fixture(scope="module")
def library() -> None:
    """A must where ROOFLINE_CUDA says so, else a loud skip."""
    try:
        cublaslt.library()
    except MissingEnvironmentError as error:
        if os.environ.get("ROOFLINE_CUDA") == "required":
            pytest.fail(f"{error} (ROOFLINE_CUDA=required)")
        pytest.skip(f"{error}: its descriptors were NOT built; see [gpu-ci]")


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("arithmetic", TYPES)
def test_every_arithmetic_has_descriptors(arithmetic: Arithmetic) -> None:
    product = LinearProduct(arithmetic, 16, 4096, 1024)
    assert product.shape == (16, 4096, 1024)
    product.close()


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("arithmetic", TYPES)
def test_a_batch_has_descriptors(arithmetic: Arithmetic) -> None:
    """The library holds the size of an attribute against its own: a wrong number is refused."""
    LinearProduct(arithmetic, 16, 4096, 1024, batch=8).close()


@pytest.mark.usefixtures("library")
def test_the_library_tells_its_version() -> None:
    assert int(cublaslt.version().split(".")[0]) >= 12


def test_a_choice_is_laid_out_as_in_the_header() -> None:
    assert ctypes.sizeof(AlgorithmChoice) == 64 + 8 + 4 + 4 + 16


@pytest.mark.parametrize("arithmetic", ["fp8", "fp8_block", "int8"])
def test_odd_widths_are_refused_where_the_hardware_has_none(arithmetic: Arithmetic) -> None:
    with pytest.raises(InputError, match="cannot have n = 24"):
        LinearProduct(arithmetic, 16, 24, 64)


def test_rows_with_scales_of_blocks_come_in_fours() -> None:
    with pytest.raises(InputError, match="cannot have m = 18"):
        LinearProduct("fp8_block", 18, 32, 128)


def test_a_library_without_scales_of_blocks_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = installed(monkeypatch, FakeGpu(seconds))
    known = library.cublasLtMatmulDescSetAttribute
    monkeypatch.setattr(
        library,
        "cublasLtMatmulDescSetAttribute",
        lambda made, name, *rest: 7 if name == 31 else known(made, name, *rest),
    )
    with pytest.raises(InputError, match=r"cuBLASLt 13\.1\.0 has no scales of blocks"):
        LinearProduct("fp8_block", 16, 32, 128)
    assert library.made == {}


def test_a_type_without_a_product_is_refused() -> None:
    unknown: Any = "fp4"
    with pytest.raises(InputError, match="no product in fp4"):
        LinearProduct(unknown, 16, 16, 64)


def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    cublaslt.library.cache_clear()
    monkeypatch.setattr(cublaslt, "_loaded", lambda: None)
    with pytest.raises(MissingEnvironmentError, match="cuBLASLt is not installed") as caught:
        cublaslt.library()
    assert caught.value.exit_code == 3
    cublaslt.library.cache_clear()
