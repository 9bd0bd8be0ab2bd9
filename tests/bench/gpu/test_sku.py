"""A device's product: capability, multiprocessors and memory tell it first, its title last."""

import pytest

from roofline.bench.gpu.device import Sku
from roofline.bench.gpu.nvml import Board
from roofline.bench.gpu.sku import candidates, recognised
from roofline.errors import UnknownNameError

MIB = 2.0**20


def sku(architecture: int, multiprocessors: int, mib: float) -> Sku:
    return Sku(architecture, multiprocessors, mib * MIB, 50e6)


def board(title: str, mig: str = "off") -> Board:
    return Board(title, 0.0, 700.0, 1980e6, "on", mig, "580.65")


KNOWN = [
    ("h100-sxm", "NVIDIA H100 80GB HBM3", sku(90, 132, 81_079)),
    ("h100-pcie", "NVIDIA H100 PCIe", sku(90, 114, 81_004)),
    ("h100-nvl", "NVIDIA H100 NVL", sku(90, 132, 95_248)),
    ("h200-sxm", "NVIDIA H200", sku(90, 132, 143_156)),
    ("h200-nvl", "NVIDIA H200 NVL", sku(90, 132, 143_156)),
    ("h800-sxm", "NVIDIA H800", sku(90, 132, 81_079)),
    ("gh200-96gb", "NVIDIA GH200 480GB", sku(90, 132, 96_768)),
    ("gh200-144gb", "NVIDIA GH200 144G HBM3e", sku(90, 132, 145_312)),
    ("h20", "NVIDIA H20", sku(90, 78, 97_280)),
    ("a100-sxm", "NVIDIA A100-SXM4-80GB", sku(80, 108, 81_038)),
    ("a100-pcie", "NVIDIA A100 80GB PCIe", sku(80, 108, 81_038)),
    ("a100-sxm-40gb", "NVIDIA A100-SXM4-40GB", sku(80, 108, 40_326)),
    ("a100-pcie-40gb", "NVIDIA A100-PCIE-40GB", sku(80, 108, 40_326)),
    ("a800-sxm", "NVIDIA A800-SXM4-80GB", sku(80, 108, 81_038)),
    ("l40s", "NVIDIA L40S", sku(89, 142, 45_469)),
    ("l40", "NVIDIA L40", sku(89, 142, 45_469)),
    ("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", sku(89, 142, 48_505)),
    ("l4", "NVIDIA L4", sku(89, 58, 22_563)),
    ("a10", "NVIDIA A10", sku(86, 72, 22_502)),
    ("rtx-4090", "NVIDIA GeForce RTX 4090", sku(89, 128, 24_080)),
    ("b200-sxm", "NVIDIA B200", sku(100, 148, 182_000)),
]


@pytest.mark.parametrize(("name", "title", "device"), KNOWN, ids=[name for name, *_ in KNOWN])
def test_a_device_is_the_product_that_it_is(name: str, title: str, device: Sku) -> None:
    assert recognised(device, board(title)).name == name


def test_the_title_alone_makes_no_product() -> None:
    with pytest.raises(UnknownNameError, match="no GPU of the catalog is NVIDIA H100 80GB HBM3"):
        recognised(sku(90, 100, 81_079), board("NVIDIA H100 80GB HBM3"))
    with pytest.raises(UnknownNameError, match="no GPU of the catalog"):
        recognised(sku(90, 132, 64_000), board("NVIDIA H100 80GB HBM3"))
    with pytest.raises(UnknownNameError, match="no GPU of the catalog"):
        recognised(sku(80, 132, 81_079), board("NVIDIA H100 80GB HBM3"))


def test_another_product_on_the_same_chip_is_not_taken_for_one_of_the_catalog() -> None:
    with pytest.raises(UnknownNameError) as caught:
        recognised(sku(90, 132, 81_079), board("NVIDIA H900 80GB HBM3"))
    assert "compute capability 9.0, 132 multiprocessors" in caught.value.message
    assert "`gpu=" in caught.value.hint


def test_several_that_match_are_named() -> None:
    device = sku(90, 132, 81_079)
    assert {found.name for found in candidates(device)} >= {"h100-sxm", "h800-sxm"}
    with pytest.raises(UnknownNameError, match="could be h100-sxm or h800-sxm") as caught:
        recognised(device, board("unknown"))
    assert caught.value.hint == "say which one: `gpu=h100-sxm`"


def test_one_that_matches_needs_no_title() -> None:
    assert recognised(sku(90, 114, 81_004), board("unknown")).name == "h100-pcie"


def test_a_slice_is_no_product() -> None:
    with pytest.raises(UnknownNameError) as caught:
        recognised(sku(90, 16, 9_984), board("NVIDIA H100 80GB HBM3 MIG 1g.10gb", mig="on"))
    assert caught.value.hint.startswith("MIG is on")
