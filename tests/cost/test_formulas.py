"""Formulas of operators: their text, with the numbers of their symbols, gives each count."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isclose

import numpy as np
import pytest

from roofline.cost.adapters import Lora
from roofline.cost.deployment import Deployment, Offload, Options
from roofline.cost.layout import Layout, pipeline
from roofline.cost.memory import kept, layer_parts, outside_parts
from roofline.cost.sampling import Sampling
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.cost.work import COUNTS, Array, Op
from roofline.errors import RooflineError
from roofline.hardware import catalog as machines
from roofline.hardware.engine import engine
from roofline.model import catalog
from roofline.model.precision import resolve
from roofline.records import replace
from tests.cases import cases
from tests.formulas import worth

NETWORKS = (
    "llama-3.1-8b",
    "mixtral-8x7b-v0.1",
    "deepseek-v3",
    "deepseek-v3.2",
    "deepseek-v4-flash",
    "kimi-k3",
    "kimi-linear-48b-a3b-base",
    "qwen3-next-80b-a3b-instruct",
    "jamba-1.5-large",
    "nvidia-nemotron-3-nano-30b-a3b-bf16",
    "gpt-oss-120b",
    "minimax-m3",
    "gemma-2-9b",
    "opt-350m",
    "bert-base-uncased",
    "gemma-3n-e2b-it",
    "lfm2-8b-a1b",
    "rwkv7-2.9b-world",
    "zamba2-1.2b",
    "gemma-3-4b",
    "clip-vit-large-patch14",
    "whisper-large-v3",
    "t5-base",
    "v-moe-l-16",
)
"""Networks that have every operator and matrix of those that are shipped, as a test below says."""
LAYOUTS = (
    Layout(),
    Layout(tp=8, sequence_parallel=True),
    Layout(tp=16),
    Layout(tp=2, cp=4),
    Layout(tp=4, ep=4),
    Layout(dp=8, ep=8),
    Layout(tp=2, dp=8, ep=8),
    Layout(dp=16, ep=16),
    Layout(tp=8, pp=2),
)
OPTIONS = (
    Options(),
    Options(mask="square", logits="all", mla="expanded", ring_attention=True),
    Options(attention="naive", mla="absorbed"),
    Options(sampling=Sampling(0.7, 40, 0.9)),
    Options(sampling=Sampling(beams=4)),
    Options(lora=Lora(5, 8, max_loras=3, adapter_skew=1.0)),
)
CONTEXTS = np.array([40.0, 700.0, 3000.0, 9000.0])
SHARES = np.array([0.1, 0.2, 0.3, 0.4])
GROUPS = {
    "prefill": prefill(3, 900.0, 100.0),
    "decode": decode(48, 3000.0),
    "draft": SequenceGroup(6.0, 5.0, 2500.0),
    "decode on an axis": decode(48, CONTEXTS),
    "draft on an axis": SequenceGroup(6.0, 5.0, CONTEXTS),
}
_SECONDS = {
    "sent": "wire_bytes",
    "sent out": "network_bytes",
    "rounds": "messages",
    "rounds out": "network_messages",
    "loaded": "host_bytes",
}


def deployments(name: str) -> Iterator[Deployment]:
    """The network in every layout that it allows, counted in several ways and formats.

    Each layout in the usual way and in one of the others, which take turns from network to network;
    in all of them where all cases run.
    """
    network, box = catalog.architecture(name), machines.node("hgx-h200-8")
    kept_there = network.formats
    own = [resolve(network.weight_format, "auto", box.gpu, also=kept_there)]
    own += [
        resolve(weights, "fp8", box.gpu, also=kept_there) for weights in ("int4-awq", "fp8", "int8")
    ]
    usual, *others = OPTIONS
    asked = []
    for turn, layout in enumerate(LAYOUTS, NETWORKS.index(name)):
        counted = cases((usual, others[turn % len(others)]), OPTIONS)
        asked += [(layout, options, own[0], Offload()) for options in counted]
    asked += [(LAYOUTS[0], usual, formats, Offload()) for formats in own[1:]]
    asked += [(LAYOUTS[1], usual, own[0], Offload(weights=0.5, kv=0.25, to="nvme"))]
    assert box.link is not None
    links = [replace(box.link, topology=joined, reduces=False) for joined in ("ring", "mesh")]
    boxes = [(box, *each) for each in asked]
    boxes += [
        (replace(box, link=link), layout, usual, own[0], Offload())
        for link in links
        for layout in LAYOUTS[1:-1]
    ]
    for node, layout, options, formats, offload in boxes:
        try:
            yield Deployment(network, node, formats, engine("vllm"), layout, options, offload)
        except RooflineError:
            continue  # a layout that the network does not allow


def operators(deployment: Deployment) -> Iterator[tuple[str, Op, Array | None]]:
    """Operators of every stage and kind of step, with the weights of their rows."""
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    for stage in {stage.layers: stage for stage in stages}.values():
        for name, group in GROUPS.items():
            weights = SHARES if isinstance(group.context, np.ndarray) else None
            for op in step(deployment, group, stage).values():
                yield f"{deployment.layout} {deployment.options} {name} {op.name}", op, weights


def mean(value: object, weights: Array | None) -> float:
    """Mean over the rows of the scenario axis."""
    rows = np.asarray(value, float)
    return float(rows) if weights is None else float(weights @ np.broadcast_to(rows, weights.shape))


@dataclass
class Read:
    """Texts of a network that were evaluated, and those whose value is another."""

    counts: int = 0
    wrong_counts: dict[tuple[str, str], str] = field(default_factory=dict)
    wrong_times: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module", params=NETWORKS)
def read(request: pytest.FixtureRequest) -> Read:
    """Every operator's texts beside its numbers: operators are made once for all of them."""
    found = Read()
    for deployment in deployments(request.param):
        for where, op, weights in operators(deployment):
            symbols = op.work.symbols(weights)
            for count in COUNTS:
                value = mean(getattr(op.work, count), weights)
                if not value:
                    continue
                found.counts += 1
                text = op.work.says(count)
                if not isclose(told := worth(text, symbols), value, rel_tol=1e-9):
                    found.wrong_counts[where, count] = f"{text} is {told}, not {value}"
            if value := mean(op.wire_s, weights):
                moved = {n: mean(getattr(op.work, name), weights) for n, name in _SECONDS.items()}
                text = op.work.says("seconds")
                if not isclose(told := worth(text, {**symbols, **moved}), value, rel_tol=1e-9):
                    found.wrong_times[where] = f"{text} is {told}, not {value}"
    return found


@pytest.mark.slow
def test_the_text_of_a_formula_gives_the_count_of_its_operator(read: Read) -> None:
    assert read.wrong_counts == {}
    assert read.counts


@pytest.mark.slow
def test_the_text_of_a_time_on_wires_gives_the_time(read: Read) -> None:
    assert read.wrong_times == {}


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_the_text_of_weights_and_cache_gives_their_bytes(network: str) -> None:
    wrong = {}
    for deployment in deployments(network):
        parts = [
            *(
                part
                for ends in ((True, False), (False, True), (True, True))
                for part in outside_parts(deployment, *ends)
            ),
            *(
                part
                for block in deployment.architecture.kinds
                for part in layer_parts(deployment, block)
            ),
            *(
                kept(deployment, block, context)
                for block in deployment.architecture.kinds
                for context in (100.0, 50_000.0)
            ),
        ]
        for part in parts:
            text, symbols = part.formula, part.symbols
            known = {name: float(value) for name, value in symbols.items()}
            if part.value and worth(text, known) != pytest.approx(float(part.value), rel=1e-12):
                wrong[str(deployment.layout), part.name] = f"{text} {known}, not {part.value}"
    assert wrong == {}


def written(name: str) -> set[tuple[str, ...]]:
    """Formulas of a network on one device, and what has them."""
    network, box = catalog.architecture(name), machines.node("hgx-h200-8")
    formats = resolve(network.weight_format, "auto", box.gpu, also=network.formats)
    deployment = Deployment(network, box, formats, engine("vllm"))
    steps = (step(deployment, GROUPS[group]) for group in ("prefill", "decode"))
    ops = (op for made in steps for op in made.values())
    found = {(op.kind, *(op.work.says(count) for count in COUNTS)) for op in ops}
    found |= {(part.name, part.formula) for part in outside_parts(deployment, True, True)}
    for block in network.kinds:
        found |= {(part.name, part.formula) for part in layer_parts(deployment, block)}
        found.add((kept(deployment, block, 1e4).formula,))
    return found


@pytest.mark.slow
def test_these_networks_have_every_formula_of_all_that_are_shipped() -> None:
    known = set().union(*(written(name) for name in NETWORKS))
    assert {name for name in catalog.names() if written(name) - known} == set()
