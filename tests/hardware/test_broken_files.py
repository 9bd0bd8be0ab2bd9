"""A mistake in a file is refused where it is, with what to do."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.content import shipped
from roofline.errors import DocumentError
from roofline.hardware.reading import read_gpu, read_node
from tests.cases import examples

H100 = (shipped("hwspecs") / "gpus" / "h100-sxm.yaml").read_text(encoding="utf-8")
HGX = (shipped("hwspecs") / "nodes" / "hgx-h100-8.yaml").read_text(encoding="utf-8")

NOMINAL = "nominal: {value: 80 GiB, source: nvidia-datasheet, where: "


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def place(text: str, mark: str) -> tuple[int, int]:
    """Line and column, counted from 1, of the first character of a mark."""
    offset = text.index(mark)
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


@pytest.mark.parametrize(
    ("old", "new", "at", "says"),
    [
        ("3.35 TB/s", "3.35 TB", "3.35 TB", "not in B/s"),
        ("3.35 TB/s", "3.35", "3.35", "not in B/s"),
        ("3.35 TB/s", "fast", "fast", "not a quantity"),
        ("3.35 TB/s", "-3.35 TB/s", "-3.35", "cannot be '-3.35 TB/s'"),
        ("3.35 TB/s", "0 TB/s", "0 TB/s", "cannot be '0 TB/s'"),
        ("3.35 TB/s", "3.35 PB/s", "3.35 PB", "cannot be '3.35 PB/s'"),
        ("3.35 TB/s", "3.35 kB/s", "3.35 kB", "cannot be '3.35 kB/s'"),
        ("3.35 TB/s", "nan", "nan", "not a quantity"),
        ("3.35 TB/s", ".nan", ".nan", "not a finite number"),
        ("3.35 TB/s", "1e999 TB/s", "1e999", "too large"),
        ("value: 3.35 TB/s", "value: true", "true", ""),
        ("value: 3.35 TB/s", "value: [1]", "[1]", ""),
        ("80 GiB", "80 GFLOP/s", "80 GFLOP/s", "not in B"),
        ("700 W", "700 kW", "700 kW", "cannot be '700 kW'"),
        ("1980 MHz", "1980 THz", "1980 THz", "cannot be"),
        ("value: 132", "value: 132.5", "132.5", "cannot be '132.5'"),
        ("value: 132", "value: -132", "-132", "cannot be"),
        ("value: 132", "value: 132 SMs", "132 SMs", "plain number"),
        ("989.4 TFLOP/s", "989.4 TB/s", "989.4 TB/s", "not in FLOP/s"),
        ("2.99 $/h", "-2.99 $/h", '"-2.99', "cannot be"),
        ('"2.99 $/h"', "2.99", "2.99", "not in $/h"),
        ("81559 MiB", "81559 GiB", "\n    value: 81559 GiB", "more memory is visible"),
        ("227 KiB", "229 KiB", "\n    value: 229 KiB", "cannot have more shared memory"),
        ("sustained:\n  bf16", "sustained:\n  int4", "\n    value: 789.24", "has no dense rate"),
        (NOMINAL, "nominal: {value: 80 GiB, where: ", "{value: 80 GiB", "source"),
        (NOMINAL, "nominal: {source: nvidia-datasheet, where: ", "{source: nvidia", "value"),
        (NOMINAL, NOMINAL.replace("nvidia-", "nvidea-"), "nvidea-", "is not listed"),
        (NOMINAL, NOMINAL.replace("nvidia-datasheet", "assumed"), "assumed", "without a reason"),
        (', where: "specification table, memory size"', "", "nominal:", "does not say where"),
        ("sources:\n", "sources:\n  spare: {title: x}\n", "spare", "nothing uses it"),
        ("  fp8:", "  fp9:", "fp9:", "fp9"),
        ("  nvlink:", "  nvlimk:", "nvlimk:", "nvlimk"),
        ("memory:\n", "memory:\n  speed: 3\n", "speed", "speed"),
        ("power:\n", "powr:\n", "powr", "powr"),
        ("schema_version: 1", "schema_version: 2", "2", ""),
        ("name: h100-sxm", "name: H100 SXM", "H100 SXM", ""),
        ("confidence: high", "confidence: sure", "sure", ""),
        ("l2_bytes_per_clock:", "l2_bandwith:", "l2_bandwith", "l2_bandwith"),
        ("title: NVIDIA H100 SXM5 80GB", "title: &a NVIDIA", "&a", "anchors"),
        ("name: h100-sxm", "name: h100-sxm\nname: twice", "name: twice", "twice"),
    ],
)
def test_a_mistake_in_a_gpu_is_refused_where_it_is(
    tmp_path: Path, old: str, new: str, at: str, says: str
) -> None:
    text = H100.replace(old, new, 1)
    assert text != H100
    path = written(tmp_path, text)
    with pytest.raises(DocumentError) as caught:
        read_gpu(path)
    line, column = place(text, at)
    if at.startswith("\n    value"):  # a whole figure: its first key
        line, column = line + 1, 5
    assert caught.value.where == f"{path}:{line}:{column}"
    assert says in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("add", "says"),
    [
        ("  l2_bandwidth: {value: 5.5 TB/s, source: assumed, note: a test}\n", "has two rates"),
        ("  l2_bandwidth: {value: 5.5 TB/s, source: assumed}\n", "without a reason"),
    ],
)
def test_a_second_rate_of_the_cache_is_refused(tmp_path: Path, add: str, says: str) -> None:
    text = H100.replace("cache:\n", "cache:\n" + add)
    with pytest.raises(DocumentError, match=says) as caught:
        read_gpu(written(tmp_path, text))
    assert f":{text[: text.index('l2_bandwidth')].count(chr(10)) + 1}:" in caught.value.where


def test_a_rate_per_clock_needs_the_clock(tmp_path: Path) -> None:
    start = H100.index("  clock:")
    text = H100[:start] + H100[H100.index("\n# Dense") :]
    with pytest.raises(DocumentError, match="needs the clock"):
        read_gpu(written(tmp_path, text))


def test_a_gpu_without_arithmetic_is_refused(tmp_path: Path) -> None:
    text = H100[: H100.index("arithmetic:")] + "arithmetic: {}\n" + H100[H100.index("sparsity:") :]
    with pytest.raises(DocumentError):
        read_gpu(written(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        ("value: 8,", "value: 0,", "0, source"),
        ("value: 8,", "value: 2.5,", "2.5, source"),
        ("50 GB/s", "50 Gb/s", "50 Gb/s"),
        ("kind: nvlink", "kind: rope", "rope"),
        ("network:\n", "network:\n  hops: 1\n", "hops"),
    ],
)
def test_a_mistake_in_a_node_is_refused_where_it_is(
    tmp_path: Path, old: str, new: str, at: str
) -> None:
    text = HGX.replace(old, new, 1)
    assert text != HGX
    path = written(tmp_path, text)
    with pytest.raises(DocumentError) as caught:
        read_node(path)
    line, column = place(text, at)
    assert caught.value.where == f"{path}:{line}:{column}"


def test_optional_parts_may_be_left_out(tmp_path: Path) -> None:
    gpu = read_gpu(
        written(
            tmp_path,
            "schema_version: 1\nname: toy\ntitle: Toy\nvendor: none\narchitecture: none\n"
            "memory:\n  type: DDR\n"
            "  nominal: {value: 8 GiB, source: assumed, note: toy}\n"
            "  bandwidth: {value: 100 GB/s, source: assumed, note: toy}\n"
            "compute: {multiprocessors: {value: 2, source: assumed, note: toy}}\n"
            "arithmetic: {bf16: {value: 1 TFLOP/s, source: assumed, note: toy}}\n",
        )
    )
    assert gpu.ridge("bf16") == 10
    assert gpu.memory_bytes == gpu.nominal_bytes == 8 * 2**30
    assert (gpu.l2_bytes, gpu.l2_bytes_per_s, gpu.shared_bytes_per_s, gpu.clock_hz) == (0, 0, 0, 0)
    assert (gpu.tdp_w, gpu.usd_per_hour, dict(gpu.links)) == (0, 0, {})


@pytest.mark.slow
@given(
    st.integers(0, len(H100) - 1),
    st.integers(0, 30),
    st.text(max_size=6) | st.sampled_from("[]{}:"),
)
@settings(max_examples=examples(150), deadline=None)
def test_no_edit_gives_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, start: int, length: int, insert: str
) -> None:
    text = H100[:start] + insert + H100[start + length :]
    path = tmp_path_factory.mktemp("edit") / "mine.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    error = refusal(path)
    assert error is None or (error.where.startswith(f"{path}:") and error.hint)


def refusal(path: Path) -> DocumentError | None:
    try:
        read_gpu(path)
    except DocumentError as error:
        return error
    return None
