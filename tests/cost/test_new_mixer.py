"""A kind of mixer that the package does not know: one class, its operators and a line."""

from collections.abc import Iterator
from typing import ClassVar

import pytest

import roofline
from roofline.cost.attention import attention
from roofline.cost.deployment import Deployment
from roofline.cost.layers import blocks
from roofline.cost.layers.attention import mask_of
from roofline.cost.layers.common import ForwardPass, attending, kv_store, product
from roofline.cost.layout import Layout, check_layer
from roofline.cost.memory import kept, kv_bytes_per_sequence, weight_bytes
from roofline.cost.step import decode, step
from roofline.cost.work import Op
from roofline.errors import LayoutError
from roofline.hardware import catalog as machines
from roofline.hardware.engine import engine
from roofline.model import catalog
from roofline.model.linear import Linear
from roofline.model.mixer import TokenMixer, cache
from roofline.model.parameters import kv_elements_per_token, parts
from roofline.model.precision import resolve
from roofline.part import Number, Part
from roofline.records import replace


class Tied(TokenMixer, frozen=True):
    """Grouped attention whose keys are its values: one cached row for both."""

    fixed_width: ClassVar[bool] = True
    heads: int
    kv_heads: int
    head_dim: int
    window: None = None
    label: str = "tied attention"
    other_parameters: int = 0

    @property
    def kv_elements(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def lasting_elements(self) -> int:
        return self.kv_elements

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        n = self.heads * self.head_dim
        return (
            Linear("qkv", n + self.kv_elements, d_model),
            Linear("attn-out", d_model, n, split="row"),
        )

    def kept(
        self, context: Number, *, tp: Number, kv: float, width: float, whole: bool = False
    ) -> Part:
        return cache(
            "tied layers",
            "K · H[ / TP] · {S} · bytes",
            {"S": context, "bytes": kv, "K": self.kv_heads, "H": self.head_dim, "TP": tp},
            context,
            token_bytes=self.kv_elements / tp * kv,
            span=None,
            index=None,
        )

    def activation_width(self, tp: Number) -> Number:
        return (2 * self.heads + self.kv_heads) * self.head_dim / tp

    def other_share(self, tp: Number) -> Number:
        return 0.0


def operators(p: ForwardPass, part: Tied, d: float, layers: int) -> Iterator[Op]:
    h, heads, kv_heads = float(part.head_dim), part.heads / p.tp, part.kv_heads / p.tp
    yield from product(p, "qkv", (heads + kv_heads) * h, d, layers)
    yield kv_store(p, kv_heads * h, layers)
    for group in p.groups:
        work = attention(
            *group[1:],
            heads=heads,
            kv_heads=kv_heads,
            head_dim=h,
            width=p.width,
            kv_width=p.deployment.precision.kv.width / 2.0,  # a row is read once for both
            mask=mask_of(p),
        )
        dims = {"heads": heads, "kv_heads": kv_heads, "head_dim": h, "window": 0.0}
        yield attending(p, "attention", group, work, layers, dims)
    yield from product(p, "attn-out", d, heads * h, layers)


def deployment(tp: int = 1) -> Deployment:
    network = catalog.architecture("llama-3.1-8b")
    made = {block: replace(block, mixer=Tied(32, 8, 128)) for block in network.kinds}
    network = replace(network, name="tied", layers=tuple(made[block] for block in network.layers))
    node = machines.node("hgx-h100-8")
    formats = resolve("bf16", "auto", node.gpu)
    return Deployment(network, node, formats, engine("ideal"), Layout(tp=tp))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(blocks.MIXERS, Tied, operators)


def test_a_cache_of_tied_rows_is_half_of_that_of_keys_and_values() -> None:
    # 32 layers of 8 · 128 elements of 2 bytes.
    assert kv_bytes_per_sequence(deployment(), 1000.0) == 32 * 8 * 128 * 2 * 1000
    assert kv_bytes_per_sequence(deployment(2), 1000.0) == 32 * 8 * 128 * 1000
    assert kv_elements_per_token(deployment().architecture) == 32 * 8 * 128
    block = deployment().architecture.layers[0]
    assert kept(deployment(), block, 1000.0).formula == "K · H[ / TP] · S · bytes[ / CP]"


def test_its_weights_are_those_of_its_matrices() -> None:
    network = deployment().architecture
    assert parts(network)["attention_qkv"] == 32 * 4096 * (32 + 8) * 128
    whole, plain = weight_bytes(deployment()), catalog.architecture("llama-3.1-8b")
    other = weight_bytes(replace(deployment(), architecture=plain))
    assert other - whole == 2 * 32 * 4096 * 8 * 128


def test_a_step_reads_its_cache_once() -> None:
    ops = step(deployment(), decode(4, 1000)).values()
    read = sum(op.total.kv_bytes for op in ops if op.kind == "decode-attention")
    assert read == 4 * 1001 * 32 * 8 * 128 * 2


def test_an_analysis_has_its_operators_and_its_cache() -> None:
    plain, tied = (
        roofline.analyze(network, "h100-sxm", batch=32, calibration="none")
        for network in ("llama-3.1-8b", deployment().architecture)
    )
    one, other = (
        {row["part"]: row["bytes"] for row in result.rows("memory")} for result in (tied, plain)
    )
    assert one["KV cache"] * 2 == other["KV cache"]
    ops = {row["op"] for row in tied.rows("ops")}
    assert ops == {row["op"] for row in plain.rows("ops")} - {"rotary"}
    assert tied.tpot.value < plain.tpot.value


def test_devices_divide_its_heads() -> None:
    with pytest.raises(LayoutError, match="query heads 32 cannot be divided by a degree of 3"):
        check_layer(deployment().architecture, 3)
