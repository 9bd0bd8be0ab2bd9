import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.content import shipped
from roofline.errors import DocumentError, MissingRateError, RooflineError, UnknownNameError
from roofline.hardware import catalog
from tests.cases import examples

GPUS = sorted((shipped("hwspecs") / "gpus").glob("*.yaml"), key=lambda path: path.stem)


@pytest.mark.parametrize("path", GPUS, ids=lambda path: path.stem)
def test_a_file_loads_and_is_called_after_its_gpu(path: Path) -> None:
    gpu = catalog.gpu(path.stem)
    assert gpu.name == path.stem
    assert gpu == catalog.gpu(str(path))
    assert {fact.basis for fact in gpu.facts.values()} <= {"datasheet", "assumed"}


def test_there_are_35_accelerators_and_a_cpu() -> None:
    assert catalog.gpu_names() == [path.stem for path in GPUS]
    assert "cpu-generic" in catalog.gpu_names()
    assert len(catalog.gpu_names()) > 35


def test_no_two_gpus_answer_to_one_name() -> None:
    owners: dict[str, str] = {}
    for name in catalog.gpu_names():
        for called in {catalog._bare(text) for text in (name, *catalog.gpu(name).aliases)}:
            assert owners.setdefault(called, name) == name, called


def test_every_alias_finds_its_gpu() -> None:
    for name in catalog.gpu_names():
        for alias in catalog.gpu(name).aliases:
            assert catalog.gpu(alias).name == name


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("h100", "h100-sxm"),
        ("H100_SXM", "h100-sxm"),
        ("H100 SXM", "h100-sxm"),
        ("  h100-sxm  ", "h100-sxm"),
        ("h100sxm", "h100-sxm"),
        ("a100", "a100-sxm"),
        ("a100_sxm", "a100-sxm"),
        ("a100_pcie", "a100-pcie"),
        ("a100-sxm-40gb", "a100-sxm-40gb"),
        ("h200_sxm", "h200-sxm"),
        ("h200_nvl", "h200-nvl"),
        ("h800_sxm", "h800-sxm"),
        ("b200_sxm", "b200-sxm"),
        ("b300_sxm", "b300-sxm"),
        ("gb200", "gb200"),
        ("gb300", "gb300"),
        ("gh200_96gb", "gh200-96gb"),
        ("gh200_144gb", "gh200-144gb"),
        ("L40S", "l40s"),
        ("4090", "rtx-4090"),
        ("RTX 6000 Ada", "rtx-6000-ada"),
        ("MI300X", "mi300x"),
        ("B200-SXM (HGX/DGX)", "b200-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("AMD Instinct MI300X", "mi300x"),
        ("b60", "arc-pro-b60"),
        ("Intel Arc Pro B60", "arc-pro-b60"),
        ("Intel(R) Arc(TM) Pro B60 Graphics", "arc-pro-b60"),
        ("cpu", "cpu-generic"),
    ],
)
def test_names_are_found_in_any_spelling(asked: str, name: str) -> None:
    assert catalog.gpu(asked).name == name


def test_a_plain_name_reads_one_file() -> None:
    catalog._called.cache_clear()
    catalog.gpu("h100-sxm")
    catalog.gpu("H100_SXM")
    assert catalog._called.cache_info().currsize == 0


def test_an_unknown_name_suggests_a_close_one() -> None:
    with pytest.raises(UnknownNameError, match="no GPU is called 'h10-sxm'") as caught:
        catalog.gpu("h10-sxm")
    assert "h100-sxm" in caught.value.hint


@pytest.mark.parametrize("name", ["", "   ", "qqqqqqqq", "NVIDIA", "🚀", "..", "x" * 100_000])
def test_a_name_like_none_says_how_to_list_them(name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        catalog.gpu(name)
    assert "roofline gpus" in caught.value.hint
    assert len(caught.value.told) < 120


@pytest.mark.parametrize("path", ["no/such/file", "missing.yaml", "a\0.yaml", "/", "../gpus"])
def test_a_path_without_a_file_is_an_error(path: str) -> None:
    with pytest.raises(DocumentError):
        catalog.gpu(path)


@pytest.mark.slow
@given(st.text(max_size=40))
@settings(max_examples=examples(200), deadline=None)
def test_no_name_gives_a_traceback(name: str) -> None:
    for find in (catalog.gpu, catalog.node):
        with contextlib.suppress(RooflineError):
            find(name)


def test_missing_arithmetic_lists_what_there_is() -> None:
    with pytest.raises(MissingRateError, match="a100-sxm has no fp8 arithmetic") as caught:
        catalog.gpu("a100").rate("fp8")
    assert "bf16 (312 TFLOP/s)" in caught.value.hint
    assert "int8 (624 TFLOP/s)" in caught.value.hint


def test_a_shipped_figure_is_located_without_the_folder_of_the_installation() -> None:
    fact = catalog.gpu("h100").facts["hbm"]
    file, line, _ = fact.location.split(":")
    assert file == "hwspecs/gpus/h100-sxm.yaml"
    lines = (GPUS[0].parent / "h100-sxm.yaml").read_text(encoding="utf-8").splitlines()
    assert fact.text in lines[int(line) - 1]


def test_prices_are_dated_assumptions() -> None:
    priced = [gpu for gpu in map(catalog.gpu, catalog.gpu_names()) if gpu.usd_per_hour]
    assert priced
    for gpu in priced:
        fact = gpu.facts["price.per_hour"]
        assert (fact.basis, bool(fact.date), bool(fact.note)) == ("assumed", True, True)


def test_finding_a_gpu_imports_neither_numpy_nor_pandas() -> None:
    code = (
        "import sys; from roofline.hardware import catalog; catalog.gpu('4090');"
        "sys.exit(bool({'numpy', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
