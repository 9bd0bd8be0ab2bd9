from pathlib import Path
from textwrap import dedent

import pytest

from roofline.content import shipped
from roofline.errors import InputError, LayoutError, UnknownNameError
from roofline.hardware import catalog
from roofline.hardware.machine import Link
from roofline.records import replace
from roofline.units import parse

NODES = sorted((shipped("hwspecs") / "nodes").glob("*.yaml"), key=lambda path: path.stem)


@pytest.mark.parametrize("path", NODES, ids=lambda path: path.stem)
def test_a_node_loads_and_is_called_after_its_file(path: Path) -> None:
    node = catalog.node(path.stem)
    assert node.name == path.stem
    assert node.link is not None
    assert node.link.bytes_per_s <= node.gpu.links[node.link.kind].bytes_per_s
    assert not node.link.devices or node.link.devices >= node.gpus
    assert node.facts["gpus"].value == node.gpus
    assert node.facts["link.bandwidth"].value == node.link.bytes_per_s
    if node.network:
        assert node.network.rate_between_nodes <= node.link.bytes_per_s


def test_node_names_are_sorted() -> None:
    assert catalog.node_names() == [path.stem for path in NODES]


@pytest.mark.parametrize(
    ("name", "gpus", "kind", "link", "network"),
    [
        ("hgx-a100-8", 8, "nvlink", "300 GB/s", "25 GB/s"),
        ("hgx-h100-8", 8, "nvlink", "450 GB/s", "50 GB/s"),
        ("hgx-h200-8", 8, "nvlink", "450 GB/s", "50 GB/s"),
        ("hgx-b200-8", 8, "nvlink", "900 GB/s", "50 GB/s"),
        ("gb200-nvl72", 72, "nvlink", "900 GB/s", "50 GB/s"),
        ("l40s-pcie-8", 8, "pcie", "31.5 GB/s", "6.25 GB/s"),
        ("gaudi2-8", 8, "ethernet", "262.5 GB/s", "37.5 GB/s"),
    ],
)
def test_links_of_known_nodes(name: str, gpus: int, kind: str, link: str, network: str) -> None:
    node = catalog.node(name)
    assert node.link is not None
    assert node.network is not None
    assert (node.gpus, node.link.kind) == (gpus, kind)
    assert node.link.bytes_per_s == parse(link, "B/s")
    assert node.network.bytes_per_s == parse(network, "B/s")


def test_a_rack_of_72_ports_of_400_gbit_sends_3_6_tb_per_s() -> None:
    node = catalog.node("gb200-nvl72")
    assert node.network is not None
    assert node.network.bytes_per_s * node.gpus == parse("3.6 TB/s", "B/s")


@pytest.mark.slow
@pytest.mark.parametrize("name", catalog.gpu_names())
def test_the_default_node_holds_what_is_asked_for_and_no_smaller_one_does(name: str) -> None:
    gpu = catalog.gpu(name)
    files = [n for n in map(catalog.node, catalog.node_names()) if n.gpu.name == name]
    for gpus in (1, 2, 4, 8):
        node = catalog.default_node(gpu, gpus)
        assert node.gpu is gpu
        assert node.gpus >= gpus
        assert node.link is not None
        assert not node.link.devices or node.link.devices >= gpus
        assert all(other.gpus >= node.gpus for other in files if other.gpus >= gpus)


@pytest.mark.parametrize(
    ("name", "gpus", "node", "kind"),
    [
        ("h100-sxm", 1, "hgx-h100-8", "nvlink"),
        ("h100-sxm", 8, "hgx-h100-8", "nvlink"),
        ("h100-sxm", 16, "hgx-h100-8", "nvlink"),
        ("h100-sxm", 1024, "hgx-h100-8", "nvlink"),
        ("gb200", 72, "gb200-nvl72", "nvlink"),
        ("gb200", 73, "gb200-nvl72", "nvlink"),
        ("gh200-96gb", 1, "gh200-96gb-1", "nvlink"),
        ("gh200-96gb", 2, "gh200-96gb-x2", "nvlink"),
        ("l40s", 4, "l40s-pcie-8", "pcie"),
        ("l40", 4, "l40-x4", "pcie"),
        ("h100-nvl", 2, "h100-nvl-x2", "nvlink"),
        ("h100-nvl", 4, "h100-nvl-x4", "pcie"),
        ("h200-nvl", 4, "h200-nvl-x4", "nvlink"),
        ("tpu-v5e", 256, "tpu-v5e-x256", "ici"),
    ],
)
def test_default_nodes_of_known_gpus(name: str, gpus: int, node: str, kind: str) -> None:
    found = catalog.default_node(catalog.gpu(name), gpus)
    assert found.link is not None
    assert (found.name, found.link.kind) == (node, kind)


@pytest.mark.parametrize(
    ("name", "largest"), [("l40", 8), ("rtx-4090", 8), ("cpu", 8), ("tpu-v5e", 256)]
)
def test_more_than_a_node_without_network_holds_is_refused(name: str, largest: int) -> None:
    gpu = catalog.gpu(name)
    assert catalog.default_node(gpu, largest).gpus == largest
    with pytest.raises(LayoutError, match=f"the largest holds {largest}") as caught:
        catalog.default_node(gpu, largest + 1)
    assert f"at most {largest}" in caught.value.hint
    assert f"a node of {gpu.name} a network" in caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("name", catalog.gpu_names())
def test_more_than_a_node_holds_takes_the_largest_with_a_network(name: str) -> None:
    gpu = catalog.gpu(name)
    files = [n for n in map(catalog.node, catalog.node_names()) if n.gpu.name == name and n.network]
    if not files:
        with pytest.raises(LayoutError):
            catalog.default_node(gpu, 100_000)
        return
    node = catalog.default_node(gpu, 100_000)
    assert node.network
    assert node.gpus == max(other.gpus for other in files)


def test_of_two_nodes_with_a_network_the_larger_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rack = catalog.node("gb200-nvl72")
    tray, alone = replace(rack, name="tray", gpus=4), replace(rack, name="alone", network=None)
    monkeypatch.setattr(catalog, "_nodes_of", lambda _: [tray, rack, alone])
    assert catalog.default_node(rack.gpu, 4) is tray
    assert catalog.default_node(rack.gpu, 1000) is rack


@pytest.mark.parametrize("gpus", [0, -1, -(10**30)])
def test_less_than_one_gpu_is_refused(gpus: int) -> None:
    with pytest.raises(InputError):
        catalog.default_node(catalog.gpu("h100"), gpus)


def test_the_default_node_is_built_around_the_gpu_that_was_given() -> None:
    slow = Link("nvlink", parse("1 GB/s", "B/s"))
    mine = replace(catalog.gpu("h100"), links={"nvlink": slow})
    node = catalog.default_node(mine, 8)
    assert node.name == "hgx-h100-8"
    assert node.gpu is mine
    assert node.link == replace(slow, reduces=True)  # the switch is the node's


def test_a_gpu_without_links_runs_alone() -> None:
    alone = replace(catalog.gpu("l40"), links={})
    assert catalog.default_node(alone, 1).link is None
    with pytest.raises(LayoutError, match="the largest holds 1"):
        catalog.default_node(alone, 2)


def test_the_link_to_the_processor_joins_no_gpus() -> None:
    gpu = catalog.gpu("gh200-96gb")
    only = replace(gpu, links={"c2c": gpu.links["c2c"]})
    with pytest.raises(LayoutError):
        catalog.default_node(only, 2)


def test_an_unknown_node_suggests_a_close_one() -> None:
    with pytest.raises(UnknownNameError, match="no node is called 'hgx-h10-8'") as caught:
        catalog.node("hgx-h10-8")
    assert "hgx-h100-8" in caught.value.hint


def test_a_node_of_ones_own_needs_a_link_that_its_gpu_has(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (
        "schema_version: 1\nname: mine\ntitle: Mine\ngpu: l40s\n"
        "gpus: {value: 4, source: assumed, note: mine}\nlink: {kind: KIND}\n"
    )
    path.write_text(text.replace("KIND", "pcie"), encoding="utf-8")
    assert catalog.node(str(path)).gpus == 4
    path.write_text(text.replace("KIND", "nvlink"), encoding="utf-8")
    with pytest.raises(InputError, match="joined by nvlink, which l40s does not have"):
        catalog.node(str(path))


def test_the_node_in_the_readme_is_one(tmp_path: Path) -> None:
    readme = (shipped("hwspecs") / "README.md").read_text(encoding="utf-8")
    block = readme[readme.index("    schema_version") : readme.index("\n`link` takes")]
    path = tmp_path / "readme.yaml"
    path.write_text(dedent(block), encoding="utf-8")
    assert catalog.node(str(path)) == replace(
        catalog.node("hgx-h100-8"), facts=catalog.node(str(path)).facts
    )
