"""A kind of feed-forward part that the package does not know: a class, operators, a line."""

from collections.abc import Iterator

import pytest

from roofline.cost.deployment import Deployment
from roofline.cost.layers import blocks
from roofline.cost.layers.common import ForwardPass, elementwise, split
from roofline.cost.layout import Layout, check_layer
from roofline.cost.memory import activation_peak, weight_bytes
from roofline.cost.step import decode, step
from roofline.cost.work import Op
from roofline.errors import LayoutError
from roofline.hardware import catalog as machines
from roofline.hardware.engine import engine
from roofline.model import catalog
from roofline.model.changes.pruning import ffn
from roofline.model.feedforward import DensePart, Moe, SharedWidth
from roofline.model.linear import Linear
from roofline.model.parameters import parts
from roofline.model.precision import resolve
from roofline.part import Number
from roofline.records import replace


class LowRank(DensePart, frozen=True):
    """Up to the inner width and down again, each matrix factored through a narrow one."""

    width: int
    rank: int
    gated: bool = False

    @property
    def shared_widths(self) -> tuple[SharedWidth, ...]:
        return (SharedWidth("low-rank width", self.width),)

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        return (
            Linear("narrow-up", self.rank, d_model, split="none"),
            Linear("wide-up", self.width, self.rank),
            Linear("wide-down", self.rank, self.width, split="row"),
            Linear("narrow-down", d_model, self.rank, split="none"),
        )

    def activation_width(self, tp: Number, shared_tp: Number) -> Number:
        return 2 * (self.width / tp + self.rank)

    def with_width(self, width: int) -> "LowRank":
        return replace(self, width=width)

    def with_experts(self, experts: int, active: int) -> Moe:
        return Moe(experts, active, self.width, gated=False)


def operators(p: ForwardPass, part: LowRank, d: float, layers: int) -> Iterator[Op]:
    first, up, down, last = part.linears(int(d))
    yield from split(p, first, layers)
    yield from split(p, up, layers)
    inner = part.width / p.tp
    yield elementwise(p, "activation", inner, inner, layers)
    yield from split(p, down, layers)
    yield from split(p, last, layers)


def deployment(tp: int = 1, rank: int = 512) -> Deployment:
    network = catalog.architecture("llama-3.1-8b")
    part = LowRank(14336, rank)
    made = {block: replace(block, feedforward=part) for block in network.kinds}
    network = replace(network, name="low", layers=tuple(made[block] for block in network.layers))
    node = machines.node("hgx-h100-8")
    formats = resolve("bf16", "auto", node.gpu)
    return Deployment(network, node, formats, engine("ideal"), Layout(tp=tp))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(blocks.FEEDFORWARDS, LowRank, operators)


def test_its_parameters_are_those_of_its_matrices() -> None:
    counted = 32 * 2 * 512 * (4096 + 14336)
    assert parts(deployment().architecture)["mlp"] == counted
    plain = catalog.architecture("llama-3.1-8b")
    other = weight_bytes(replace(deployment(), architecture=plain))
    assert other - weight_bytes(deployment()) == 2 * (parts(plain)["mlp"] - counted)


def test_devices_divide_the_wide_matrices_and_repeat_the_narrow_ones() -> None:
    whole, shared = weight_bytes(deployment()), weight_bytes(deployment(2))
    plain = [
        weight_bytes(replace(deployment(tp), architecture=catalog.architecture("llama-3.1-8b")))
        for tp in (1, 2)
    ]
    narrow, wide, dense = 32 * 2 * 512 * 4096, 32 * 2 * 512 * 14336, 32 * 3 * 4096 * 14336
    saved = plain[0] - plain[1] - 2 * dense / 2
    assert whole - shared == saved + 2 * wide / 2
    assert whole == plain[0] - 2 * dense + 2 * (narrow + wide)


def test_a_step_reads_its_weights_once() -> None:
    ops = step(deployment(), decode(4, 1000))
    assert sum(ops[name].total.weight_bytes for name in ("wide-up", "wide-down")) == (
        32 * 2 * 512 * 14336 * 2
    )


def test_its_own_width_bounds_layouts_and_activations() -> None:
    with pytest.raises(LayoutError, match="query heads 32 cannot be divided by a degree of 3"):
        check_layer(deployment().architecture, 3)
    network = deployment().architecture
    block = replace(network.layers[0], feedforward=LowRank(14337, 8))
    with pytest.raises(LayoutError, match="low-rank width 14337 cannot be divided"):
        check_layer(replace(network, layers=(block,)), 2)
    wide = activation_peak(deployment(rank=4096), 100.0, 1.0)
    narrow = activation_peak(deployment(rank=512), 100.0, 1.0)
    assert wide - narrow == 100 * 2 * (4096 - 512) * 2


def test_pruning_and_upcycling_ask_the_part() -> None:
    narrower = ffn(deployment().architecture, "1024")
    assert {block.feedforward for block in narrower.kinds} == {LowRank(1024, 512)}
