"""Every figure of the golden table is in the catalog, or its difference is explained here."""

import csv
import math
import re
from pathlib import Path

import pytest

from roofline.content import shipped
from roofline.hardware import catalog
from roofline.hardware.files import GpuFile
from roofline.hardware.machine import Gpu
from roofline.schema import read, validate
from roofline.units import parse

GOLDEN = Path(__file__).parent.parent / "golden" / "gpus.csv"
ROWS = list(csv.DictReader(GOLDEN.read_text(encoding="utf-8").splitlines()))
Row = dict[str, str]

# Column: figure, and the unit its numbers are in. Capacities that the table calls GB, MB and KB are
# binary: an "80 GB" H100 shows 81559 MiB, an A100's "40 MB" of L2 are 40 MiB.
COLUMNS = {
    "fp32_vector_tflops": ("arithmetic.fp32", "TFLOP/s"),
    "tf32_tflops": ("arithmetic.tf32", "TFLOP/s"),
    "fp16_tflops": ("arithmetic.fp16", "TFLOP/s"),
    "bf16_tflops": ("arithmetic.bf16", "TFLOP/s"),
    "fp8_tflops": ("arithmetic.fp8", "TFLOP/s"),
    "int8_tops": ("arithmetic.int8", "TFLOP/s"),
    "fp4_tflops": ("arithmetic.fp4", "TFLOP/s"),
    "mem_gb": ("memory.nominal", "GiB"),
    "mem_bw_tbs": ("hbm", "TB/s"),
    "l2_mb": ("cache.l2", "MiB"),
    "sms_or_cus": ("compute.multiprocessors", ""),
    "l1_smem_kb_per_sm": ("compute.l1", "KiB"),
    "max_smem_kb_per_sm": ("compute.shared_memory", "KiB"),
    "boost_mhz": ("compute.clock", "MHz"),
    "tdp_w": ("power.tdp", "W"),
}

DEVIATIONS = {
    ("H200-SXM5-141GB", "mem_gb"): "143771 MiB are visible: 141 is neither GB nor GiB",
    ("H200-NVL-141GB", "mem_gb"): "143771 MiB are visible: 141 is neither GB nor GiB",
    ("B200-SXM (HGX/DGX)", "mem_bw_tbs"): "NVIDIA's datasheet and the driver's 7680 bits say 7.7",
    ("B300-SXM (HGX/DGX)", "mem_bw_tbs"): "NVIDIA prints 7.7; 7.75 is the board's 62 TB/s / 8",
    ("GB200 (per GPU)", "sms_or_cus"): "software sees 152 SMs; 148 is the B200's",
    ("GB300 (per GPU)", "sms_or_cus"): "software sees 152 SMs; 160 is the whole chip",
    ("A10G", "tdp_w"): "nvidia-smi shows a cap of 300 W and draws of 257 W; 150 W is the A10's",
    ("GB300 (per GPU)", "boost_mhz"): "blank in the table; assumed to be the B300's",
    ("TPU v6e", "boost_mhz"): "the row lacks one cell, so this one holds the name of the link",
    ("TPU v6e", "link_name"): "the row lacks one cell, so this one holds 'ICI'",
}
# The table repeats the LDS of a CU as its L1; they are two memories, and the file has the first.
DEVIATIONS |= {
    (row["gpu"], "l1_smem_kb_per_sm"): "the LDS of AMD's CUs is not part of their L1"
    for row in ROWS
    if row["vendor"] == "AMD"
}

every_row = pytest.mark.parametrize("row", ROWS, ids=[row["gpu"] for row in ROWS])


def file_of(row: Row) -> GpuFile:
    name = catalog.gpu(row["gpu"]).name
    return validate(GpuFile, read(shipped("hwspecs") / "gpus" / f"{name}.yaml"))


def differs(row: Row, column: str) -> bool:
    """Whether the catalog has something else than the table."""
    gpu = catalog.gpu(row["gpu"])
    if column == "link_name":
        return titles(gpu)[0] != row["link_name"]
    figure, unit = COLUMNS[column]
    if not row[column]:
        return figure in gpu.facts
    if figure not in gpu.facts or not re.fullmatch(r"[\d.]+", row[column]):
        return True
    factor = parse(f"1 {unit}", unit.lstrip("GTMKi")) if unit else 1.0
    return not math.isclose(gpu.facts[figure].value, float(row[column]) * factor, rel_tol=1e-12)


def titles(gpu: Gpu) -> list[str]:
    return [link.title for link in gpu.links.values()]


def test_the_table_has_41_accelerators_and_each_has_its_own_file() -> None:
    names = {catalog.gpu(row["gpu"]).name for row in ROWS}
    assert len(ROWS) == len(names) == 41


@every_row
def test_every_figure_equals_the_table(row: Row) -> None:
    assert [
        column
        for column in COLUMNS
        if differs(row, column) and (row["gpu"], column) not in DEVIATIONS
    ] == []


@pytest.mark.parametrize(("name", "column"), DEVIATIONS)
def test_a_listed_deviation_is_still_one(name: str, column: str) -> None:
    (row,) = (row for row in ROWS if row["gpu"] == name)
    assert differs(row, column)


@every_row
def test_vendor_generation_and_memory_type_are_those_of_the_table(row: Row) -> None:
    file = file_of(row)
    generation = f"{file.architecture} {file.chip}".strip().replace("-", " ").casefold()
    assert (file.vendor, generation) == (row["vendor"], row["arch"].casefold())
    assert file.memory.type == row["mem_type"]


@every_row
def test_scale_up_links_are_those_of_the_table(row: Row) -> None:
    gpu = catalog.gpu(row["gpu"])
    first = next(iter(gpu.links.values()))
    if row["link_name"] == "none":
        assert (first.kind, float(row["link_gbs_per_direction"])) == ("pcie", 0)
        return
    assert first.bytes_per_s == parse(f"{row['link_gbs_per_direction']} GB/s", "B/s")
    if (row["gpu"], "link_name") not in DEVIATIONS:
        assert first.title == row["link_name"]


@every_row
def test_pcie_follows_from_its_generation(row: Row) -> None:
    gpu = catalog.gpu(row["gpu"])
    if not row["pcie_gen"]:
        assert "pcie" not in gpu.links
        return
    generation = int(row["pcie_gen"])
    # 8 GT/s in generation 3, doubling each time; 128b/130b up to 5, FLITs with 242 of 256 B after.
    transfers = parse("8 GHz", "Hz") * 2 ** (generation - 3)
    encoding = 128 / 130 if generation < 6 else 242 / 256
    assert gpu.links["pcie"].title == f"PCIe {generation}.0 x16"
    assert gpu.links["pcie"].bytes_per_s == pytest.approx(transfers * 16 * encoding / 8, rel=5e-4)


@every_row
def test_the_ridge_is_that_of_the_table(row: Row) -> None:
    gpu = catalog.gpu(row["gpu"])
    kind = "bf16" if row["bf16_tflops"] else "fp16"
    bandwidth = gpu.facts["hbm"].value
    assert gpu.ridge(kind) == gpu.rate(kind) / bandwidth
    of_table = parse(f"{row['mem_bw_tbs']} TB/s", "B/s")
    assert gpu.ridge(kind) * bandwidth / of_table == pytest.approx(
        float(row["ridge_bf16_flop_per_byte"]), abs=0.051
    )


@every_row
def test_the_gain_of_sparsity_is_apart_from_the_rates(row: Row) -> None:
    gpu = catalog.gpu(row["gpu"])
    factor = gpu.facts["sparsity.factor"].value if "sparsity.factor" in gpu.facts else 1.0
    assert factor == float(row["sparse_factor"])
    assert gpu.flops_per_s == {
        name.removeprefix("arithmetic."): fact.value
        for name, fact in gpu.facts.items()
        if name.startswith("arithmetic.")
    }


@every_row
def test_confidence_notes_recheck_and_sources_are_carried_over(row: Row) -> None:
    file = file_of(row)
    provenance = file.provenance
    assert provenance is not None
    assert provenance.confidence == row["confidence"]
    assert provenance.notes == row["notes"]
    assert provenance.recheck == row["recheck"]
    listed = [entry.title for entry in file.sources.values()]
    for source in row["source"].split(";"):
        # Vendors' papers get the product's name: "NVIDIA datasheet, A10 24GB".
        wanted = {"AMD": "AMD product page"}.get(source.strip(), source.strip())
        assert any(title.startswith(wanted) for title in listed), source


@every_row
def test_processors_times_rate_times_clock_gives_the_peak(row: Row) -> None:
    gpu = catalog.gpu(row["gpu"])
    for text, printed in re.findall(r"(\d+(?:\*[\d.]+(?:e\d+)?)+)=([\d.]+)T", row["recheck"]):
        factors = [float(factor) for factor in text.split("*")]
        peak = math.prod(factors)
        assert peak == pytest.approx(parse(f"{printed} TFLOP/s", "FLOP/s"), rel=2e-3)
        if row["vendor"] in ("NVIDIA", "AMD"):
            assert factors[0] == gpu.multiprocessors
        if "not reproduced" not in row["recheck"]:
            assert min(abs(rate / peak - 1) for rate in gpu.flops_per_s.values()) < 4e-3


# Dense FLOP per clock of one SM at 16 bits: CUDA C++ programming guide and the architecture papers.
PER_CLOCK = {
    "GV100": 1024, "TU104": 1024, "GA100": 2048, "GA102": 1024, "GH100": 4096, "GB100": 8192,
    "AD102": 1024, "AD104": 1024, "GB202": 1024,
}  # fmt: skip


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["vendor"] == "NVIDIA"], ids=lambda r: r["gpu"]
)
def test_no_16_bit_rate_is_above_what_dense_tensor_cores_do(row: Row) -> None:
    gpu = catalog.gpu(row["gpu"])
    chip = file_of(row).chip or "GB100"
    ceiling = gpu.multiprocessors * PER_CLOCK[chip] * gpu.clock_hz
    assert gpu.rate("fp16") <= 1.005 * ceiling


@pytest.mark.parametrize(
    ("name", "arithmetic", "sparse_headline"),
    [
        ("a100-sxm", "bf16", "624 TFLOP/s"),
        ("h100-sxm", "bf16", "1979 TFLOP/s"),
        ("h100-sxm", "fp8", "3958 TFLOP/s"),
        ("h100-pcie", "bf16", "1513 TFLOP/s"),
        ("h200-nvl", "fp8", "3341 TFLOP/s"),
        ("l4", "fp16", "242 TFLOP/s"),
        ("l40s", "fp8", "1466 TFLOP/s"),
        ("b200-sxm", "fp4", "18 PFLOP/s"),
        ("rtx-5090", "fp4", "3352 TFLOP/s"),
        ("rtx-6000-ada", "fp8", "1457 TFLOP/s"),
        ("mi300x", "fp8", "5229.8 TFLOP/s"),
    ],
)
def test_rates_are_half_of_the_sparse_headlines(
    name: str, arithmetic: str, sparse_headline: str
) -> None:
    headline = parse(sparse_headline, "FLOP/s")
    assert catalog.gpu(name).rate(arithmetic) == pytest.approx(headline / 2, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "bits", "clock"),
    [
        ("b200-sxm", 7680, "3996 MHz"),
        ("rtx-pro-6000", 512, "14001 MHz"),
        ("rtx-pro-6000-server", 512, "12481 MHz"),
        ("arc-pro-b60", 192, "9500 MHz"),
    ],
)
def test_bandwidth_is_two_transfers_per_clock_on_every_wire(
    name: str, bits: int, clock: str
) -> None:
    # As drivers report them; vendors round to two digits.
    assert catalog.gpu(name).facts["hbm"].value == pytest.approx(
        bits / 8 * 2 * parse(clock, "Hz"), rel=4e-3
    )


def test_tensor_rates_of_the_b300_are_nine_tenths_of_the_gb300s() -> None:
    # 14 PFLOP/s of FP4 in NVIDIA's datasheet is 13.5, rounded.
    board, rack = catalog.gpu("b300-sxm"), catalog.gpu("gb300")
    for kind in ("tf32", "fp16", "bf16", "fp8", "fp4"):
        assert board.rate(kind) == pytest.approx(0.9 * rack.rate(kind), rel=1e-12)
    assert 8 * board.rate("fp4") == parse("108 PFLOP/s", "FLOP/s")
    assert 72 * rack.rate("fp4") == parse("1080 PFLOP/s", "FLOP/s")


@pytest.mark.parametrize(
    ("kind", "per_clock"), [("fp32", 256), ("fp16", 2048), ("bf16", 2048), ("int8", 4096)]
)
def test_rates_of_the_arc_pro_b60_follow_from_its_xe_cores(kind: str, per_clock: int) -> None:
    gpu = catalog.gpu("arc-pro-b60")
    # A vector engine does 16 fused multiply-adds of FP32, a matrix engine 128 of 16 bits, 8 each.
    assert gpu.rate(kind) == pytest.approx(20 * per_clock * parse("2.4 GHz", "Hz"), rel=3e-3)
    assert (gpu.multiprocessors, gpu.clock_hz) == (20, parse("2.4 GHz", "Hz"))


def test_the_arc_pro_b60_has_half_the_lanes_and_no_narrow_floats() -> None:
    gpu = catalog.gpu("arc-pro-b60")
    assert gpu.links["pcie"].title == "PCIe 5.0 x8"
    assert gpu.links["pcie"].bytes_per_s == catalog.gpu("l40s").links["pcie"].bytes_per_s
    assert not {"fp8", "fp6", "fp4"} & set(gpu.flops_per_s)


def test_shared_memory_of_the_a100_moves_19_tb_per_s() -> None:
    # 108 SMs × 128 B per clock × 1.41 GHz
    assert catalog.gpu("a100-sxm").shared_bytes_per_s == pytest.approx(
        parse("19.491840 TB/s", "B/s"), rel=1e-12
    )


def test_l2_of_the_a100_and_v100_is_per_clock() -> None:
    assert catalog.gpu("a100").l2_bytes_per_s == pytest.approx(parse("7219.2 GB/s", "B/s"))
    assert catalog.gpu("v100").l2_bytes_per_s == pytest.approx(parse("3133.44 GB/s", "B/s"))


@pytest.mark.parametrize(
    ("name", "nominal", "visible"),
    [
        ("h100-sxm", "80 GiB", "81559 MiB"),
        ("h200-sxm", "140.4 GiB", "143771 MiB"),
        ("a100-sxm", "80 GiB", "81920 MiB"),
        ("l40s", "48 GiB", "46068 MiB"),
        ("arc-pro-b60", "24 GiB", "24480 MiB"),
        ("mi210", "64 GiB", "64 GiB"),
    ],
)
def test_software_gets_the_visible_memory(name: str, nominal: str, visible: str) -> None:
    gpu = catalog.gpu(name)
    assert (gpu.nominal_bytes, gpu.memory_bytes) == (parse(nominal, "B"), parse(visible, "B"))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("a100", "163 KiB"),
        ("h100", "227 KiB"),
        ("b300", "227 KiB"),
        ("l40s", "99 KiB"),
        ("v100", "96 KiB"),
        ("mi300x", "64 KiB"),
        ("gaudi2", "0 KiB"),
    ],
)
def test_a_kernel_gets_what_one_block_may_have(name: str, size: str) -> None:
    assert catalog.gpu(name).shared_bytes == parse(size, "B")
