"""Kinds of links, and what GPUs and nodes inherit from them."""

from pathlib import Path
from typing import get_args

import pytest

from roofline.content import shipped
from roofline.errors import DocumentError
from roofline.hardware import catalog, links
from roofline.hardware.figures import read_kind
from roofline.hardware.files import LinkKind
from roofline.hardware.machine import TOPOLOGIES, Link, Node
from roofline.hardware.reading import read_node
from roofline.records import replace
from roofline.units import parse

KINDS = sorted((shipped("hwspecs") / "links").glob("*.yaml"), key=lambda path: path.stem)
NVLINK = (shipped("hwspecs") / "links" / "nvlink.yaml").read_text(encoding="utf-8")
HGX = (shipped("hwspecs") / "nodes" / "hgx-h100-8.yaml").read_text(encoding="utf-8")


def node_with(folder: Path, old: str, new: str, text: str = HGX) -> Node:
    """Node of a shipped file with one change."""
    assert text.count(old) == 1
    path = folder / "mine.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return catalog.node(str(path))


def gpu_with(folder: Path, name: str, old: str, new: str) -> Path:
    text = (shipped("hwspecs") / "gpus" / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = folder / "gpu.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.stem)
def test_a_kind_loads_and_every_figure_of_it_has_a_source(path: Path) -> None:
    link, facts = links.kind(path.stem)
    assert facts == read_kind(path)
    assert link.kind == path.stem
    assert link.topology == TOPOLOGIES[path.stem]
    assert link.latency_s == facts["latency"].value > 0
    assert link.per_peer_s == facts["peer"].value < link.latency_s
    for fact in facts.values():
        assert fact.location.startswith(f"hwspecs/links/{path.name}:")
        assert fact.note if fact.source == "assumed" else fact.where


def test_every_kind_that_a_file_may_name_has_a_file() -> None:
    names = [path.stem for path in KINDS]
    assert names == sorted({*get_args(LinkKind), "nvme"}) == sorted(TOPOLOGIES)


def test_farther_is_later() -> None:
    names = ("nvlink", "pcie", "infiniband", "nvme")
    latencies = [links.kind(name)[0].latency_s for name in names]
    assert latencies == sorted(latencies)


def test_only_a_drive_has_a_rate_of_its_own() -> None:
    rated = [path.stem for path in KINDS if links.kind(path.stem)[0].bytes_per_s]
    assert rated == ["nvme"]
    lanes = catalog.gpu("a100").links["pcie"].bytes_per_s * 4 / 16
    assert links.storage_link().bytes_per_s < lanes


@pytest.mark.parametrize(
    ("old", "new", "at", "says"),
    [
        ("name: nvlink", "name: rope", "rope", ""),
        ("name: nvlink", "name: xgmi", "xgmi", "the file is called"),
        ("value: 1 µs", "value: -1 µs", "-1 µs", "latency cannot be '-1 µs'"),
        ("value: 1 µs", "value: 0 s", "0 s", "latency cannot be '0 s'"),
        ("value: 1 µs", "value: 1 GB/s", "1 GB/s", "not in s"),
        ("value: 0.2 µs", "value: -0.2 µs", "-0.2 µs", "peer cannot be"),
        ("value: 0.2 µs", "value: 2 s", "2 s", "peer cannot be"),
        ("peer:\n", "peers:\n", "peers", "peers"),
        ("source: assumed", "source: nccl", "nccl", "is not listed"),
    ],
)
def test_a_mistake_in_a_kind_is_refused_where_it_is(
    tmp_path: Path, old: str, new: str, at: str, says: str
) -> None:
    text = NVLINK.replace(old, new, 1)
    assert text != NVLINK
    path = tmp_path / "nvlink.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        read_kind(path)
    offset = text.index(at)
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    assert caught.value.where == f"{path}:{line}:{column}"
    assert says in caught.value.message
    assert caught.value.hint


RATE = "bandwidth: {value: 50 GB/s, source: assumed, note: x}"


@pytest.mark.parametrize(
    ("section", "at", "says"),
    [
        (f"network: {{kind: rope, {RATE}}}", "rope", ""),
        (f"network: {{kind: nvme, {RATE}}}", "nvme", ""),
        (
            f"network: {{kind: ethernet, {RATE}, oversubscription: "
            "{value: 0.5, source: assumed, note: x}}",
            "0.5",
            "network.oversubscription cannot be '0.5'",
        ),
        (
            f"network: {{kind: ethernet, {RATE}, "
            "latency: {value: -5 µs, source: assumed, note: x}}",
            "-5 µs",
            "network.latency cannot be '-5 µs'",
        ),
        (
            f"network: {{kind: ethernet, {RATE}, reduces: {{value: 1, source: assumed, note: x}}}}",
            "1, source",
            "",
        ),
        ("host: {memory: {value: 2 TB/s, source: assumed, note: x}}", "2 TB/s", "not in B"),
        ("host: {memory: {value: 2 TB, source: assumed}}", "assumed}", "without a reason"),
        ("host: {memory: {value: 1 MB, source: assumed, note: x}}", "1 MB", "host.memory cannot"),
        ("host: {}", "{}", "memory"),
    ],
)
def test_a_mistake_in_a_section_of_a_node_is_refused_where_it_is(
    tmp_path: Path, section: str, at: str, says: str
) -> None:
    text = (
        "schema_version: 1\nname: mine\ntitle: Mine\ngpu: h100-sxm\n"
        f"gpus: {{value: 8, source: assumed, note: x}}\nlink: {{kind: nvlink}}\n{section}\n"
    )
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        read_node(path)
    offset = text.index(at)
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    assert caught.value.where == f"{path}:{line}:{column}"
    assert says in caught.value.message


@pytest.mark.parametrize("value", ['"yes"', "1", "null"])
def test_a_claim_is_true_or_false(tmp_path: Path, value: str) -> None:
    with pytest.raises(DocumentError):
        node_with(tmp_path, "reduces: {value: true", f"reduces: {{value: {value}")


def test_a_claim_needs_a_place_in_its_source(tmp_path: Path) -> None:
    claim = ', where: "SHARP, multicast and in-network reductions"'
    with pytest.raises(DocumentError, match=r"link\.reduces does not say where"):
        node_with(tmp_path, claim, "")


def test_a_false_claim_is_as_none(tmp_path: Path) -> None:
    node = node_with(tmp_path, "reduces: {value: true", "reduces: {value: false")
    assert node.link is not None
    assert not node.link.reduces
    assert node.facts["link.reduces"].text == "false"


def test_latency_is_that_of_the_kind_unless_the_gpu_or_the_node_has_its_own(
    tmp_path: Path,
) -> None:
    node = catalog.node("hgx-h100-8")
    assert node.link is not None
    assert node.link.latency_s == links.kind("nvlink")[0].latency_s
    assert node.facts["link.latency"].location.startswith("hwspecs/links/nvlink.yaml:")

    own = "    title: NVLink4\n    latency: {value: 3 µs, source: assumed, note: of the GPU}\n"
    gpu = gpu_with(tmp_path, "h100-sxm", "    title: NVLink4\n", own)
    of_gpu = node_with(tmp_path, "gpu: h100-sxm", f"gpu: {gpu}")
    assert of_gpu.link is not None
    assert of_gpu.link == replace(node.link, latency_s=parse("3 µs", "s"))
    assert of_gpu.facts["link.latency"].note == "of the GPU"
    assert of_gpu.facts["link.peer"] == node.facts["link.peer"]

    text = HGX.replace("gpu: h100-sxm", f"gpu: {gpu}")
    both = "kind: nvlink\n  latency: {value: 4 µs, source: assumed, note: of the node}\n"
    of_node = node_with(tmp_path, "kind: nvlink\n", both, text)
    assert of_node.link == replace(node.link, latency_s=parse("4 µs", "s"))
    assert of_node.facts["link.latency"].note == "of the node"
    assert of_node.facts["link.bandwidth"] == of_node.gpu.facts["links.nvlink.bandwidth"]


def test_a_rate_of_the_node_leaves_the_rest_as_in_the_gpu() -> None:
    node = catalog.node("gaudi2-8")
    assert node.link is not None
    mine = node.gpu.links["ethernet"]
    assert node.link == replace(mine, bytes_per_s=node.link.bytes_per_s, title="")
    assert node.link.bytes_per_s == mine.bytes_per_s * 21 / 24


def test_a_network_of_the_kind_of_the_link_has_nothing_of_it() -> None:
    node = catalog.node("gaudi2-8")
    assert node.network == replace(links.kind("ethernet")[0], bytes_per_s=parse("37.5 GB/s", "B/s"))
    assert node.network.topology == "switch"


@pytest.mark.parametrize(
    ("name", "topology"),
    [
        ("hgx-a100-8", "switch"),
        ("hgx-h100-8", "switch"),
        ("gb200-nvl72", "switch"),
        ("dgx1-v100-8", "mesh"),
        ("mi300x-8", "mesh"),
        ("gaudi2-8", "mesh"),
        ("gaudi3-8", "mesh"),
        ("l40s-pcie-8", "host"),
    ],
)
def test_devices_of_known_nodes_are_joined_as_they_are(name: str, topology: str) -> None:
    node = catalog.node(name)
    assert node.link is not None
    assert node.link.topology == topology
    if topology == "mesh":  # the share of a peer is known
        assert node.link.devices == node.gpus


@pytest.mark.parametrize(
    ("name", "gpus", "topology"),
    [("tpu-v5e", 16, "ring"), ("h100-nvl", 2, "mesh"), ("rtx-3090", 2, "mesh"), ("l40", 2, "host")],
)
def test_devices_without_a_node_file_are_joined_by_their_links(
    name: str, gpus: int, topology: str
) -> None:
    node = catalog.default_node(catalog.gpu(name), gpus)
    assert node.link is not None
    assert node.link.topology == topology


def test_bridges_give_two_cards_all_wires_and_four_a_third_each() -> None:
    gpu = catalog.gpu("h200-nvl")
    for cards in (2, 4):
        link = catalog.default_node(gpu, cards).link
        assert link is not None
        assert (link.topology, link.devices) == ("mesh", cards)


def test_a_node_may_say_how_it_is_wired(tmp_path: Path) -> None:
    node = node_with(tmp_path, "kind: nvlink\n", "kind: nvlink\n  topology: mesh\n")
    assert node.link is not None
    assert (node.link.topology, node.link.devices) == ("mesh", 8)
    with pytest.raises(DocumentError):
        node_with(tmp_path, "kind: nvlink\n", "kind: nvlink\n  topology: star\n")


def test_a_mesh_joins_the_devices_of_the_node_if_nothing_else_is_said(tmp_path: Path) -> None:
    text = (shipped("hwspecs") / "nodes" / "l40s-pcie-8.yaml").read_text(encoding="utf-8")
    node = node_with(tmp_path, "kind: pcie\n", "kind: pcie\n  topology: mesh\n", text)
    assert node.link is not None
    assert (node.gpu.links["pcie"].devices, node.link.devices) == (0, 8)


def test_only_the_third_generation_of_nvswitch_and_later_sums() -> None:
    nodes = [catalog.node(name) for name in catalog.node_names()]
    sums = {node.gpu.name for node in nodes if node.link and node.link.reduces}
    switched = {"h100-sxm", "h200-sxm", "h800-sxm", "h20", "b200-sxm", "b300-sxm", "gb200", "gb300"}
    assert sums == switched
    for node in nodes:
        if node.link and node.link.reduces:
            assert (node.link.kind, node.link.topology) == ("nvlink", "switch")
            assert node.facts["link.reduces"].source != "assumed"


def test_no_network_sums_unless_its_file_says_so(tmp_path: Path) -> None:
    nodes = [catalog.node(name) for name in catalog.node_names()]
    assert not any(node.network.reduces for node in nodes if node.network)
    claim = "kind: infiniband\n  reduces: {value: true, source: assumed, note: SHARP is set up}\n"
    node = node_with(tmp_path, "kind: infiniband\n", claim)
    assert node.network is not None
    assert node.network.reduces


@pytest.mark.parametrize(
    ("ratio", "rate"), [("1", "50 GB/s"), ("2", "25 GB/s"), ("4", "12.5 GB/s")]
)
def test_a_spine_is_shared_by_its_oversubscription(tmp_path: Path, ratio: str, rate: str) -> None:
    said = f"oversubscription: {{value: {ratio}, source: assumed, note: x}}"
    node = node_with(tmp_path, "kind: infiniband\n", f"kind: infiniband\n  {said}\n")
    assert node.network is not None
    assert node.network.bytes_per_s == parse("50 GB/s", "B/s")
    assert node.network.rate_between_nodes == parse(rate, "B/s")
    assert node.facts["network.oversubscription"].text == ratio


@pytest.mark.parametrize("name", catalog.node_names())
def test_every_figure_of_a_node_is_explained(name: str) -> None:
    node = catalog.node(name)
    host = node.host
    for path, link in (
        ("link", node.link),
        ("network", node.network),
        ("host", host and host.link),
    ):
        if not link:
            assert not any(fact.startswith(f"{path}.") for fact in node.facts)
            continue
        assert node.facts[f"{path}.bandwidth"].value == link.bytes_per_s
        assert node.facts[f"{path}.latency"].value == link.latency_s > 0
        assert node.facts[f"{path}.peer"].value == link.per_peer_s
    if node.network:
        assert node.facts["network.oversubscription"].value == node.network.oversubscription
    if host:
        assert node.facts["host.memory"].value == host.memory_bytes
    for path, fact in node.facts.items():
        assert fact.where or fact.note
        assert fact.location.startswith("hwspecs/") or path == "network.oversubscription"


@pytest.mark.parametrize(
    ("name", "memory", "kind"),
    [
        ("hgx-h100-8", "2 TiB", "pcie"),
        ("dgx1-v100-8", "512 GiB", "pcie"),
        ("gb200-nvl72", "17.28 TB", "c2c"),
        ("gh200-96gb-1", "480 GB", "c2c"),
    ],
)
def test_hosts_of_known_nodes(name: str, memory: str, kind: str) -> None:
    node = catalog.node(name)
    assert node.host is not None
    assert node.host.memory_bytes == parse(memory, "B")
    assert node.host.link is not None
    assert node.host.link == links.host_link(node.gpu) == node.gpu.links[kind]


def test_a_rack_of_36_processors_has_36_times_the_memory_of_one() -> None:
    one, rack = catalog.node("gh200-144gb-1").host, catalog.node("gb200-nvl72").host
    assert one is not None
    assert rack is not None
    assert rack.memory_bytes == pytest.approx(36 * one.memory_bytes)


def test_a_gpu_without_wires_to_a_host_has_none() -> None:
    assert links.host_link(catalog.gpu("tpu-v5e")) is None
    assert catalog.node("rtx-4090-pcie-8").host is None


@pytest.mark.parametrize("name", catalog.gpu_names())
def test_every_link_of_a_gpu_has_a_latency_that_is_explained(name: str) -> None:
    gpu = catalog.gpu(name)
    for kind, link in gpu.links.items():
        assert link.latency_s > 0
        assert gpu.facts[f"links.{kind}.latency"].value == link.latency_s
        assert gpu.facts[f"links.{kind}.peer"].value == link.per_peer_s


def test_a_link_made_by_hand_has_the_topology_of_its_kind() -> None:
    assert {kind: Link(kind, 1.0).topology for kind in TOPOLOGIES} == TOPOLOGIES
    assert Link("nvlink", 1.0, topology="mesh").topology == "mesh"
    assert Link("nvlink", 1.0).rate_between_nodes == 1.0
