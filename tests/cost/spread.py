"""Small networks of each kind, spread over boxes of round machines."""

from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from roofline.cost.deployment import KEPT, Deployment, Offload
from roofline.cost.layout import Layout, Stage, pipeline
from roofline.hardware.machine import Node
from roofline.model.architecture import Architecture, Attention, Block, Mla, Mlp, Moe
from roofline.records import replace
from tests.cost.networks import BOXES, deployed, wires

D: Final = 16
VOCAB: Final = 48
HEADS: Final = Attention(8, 8, 4)
GROUPED: Final = Attention(8, 2, 4)
LATENT: Final = Mla(8, 12, 16, 8, 4, 8)
WIDE: Final = Mlp(48, gated=True)
EXPERTS: Final = Moe(16, 4, 64, shared_width=24)


def of(
    mixer: Attention | Mla, *fed: Mlp | Moe, layers: int = 4, norms: int = 2, tied: bool = False
) -> Architecture:
    """Layers of a mixer, with these feed-forward parts in turn."""
    blocks = [Block(mixer, fed[i % len(fed)], norms, norms * D) for i in range(layers)]
    final = D if norms else 0
    return Architecture(
        "small", "llama", D, VOCAB, tuple(blocks), tied, D, final_norm_parameters=final
    )


def _side_by_side(network: Architecture) -> Architecture:
    layers = tuple(replace(block, parallel=True) for block in network.layers)
    return replace(network, layers=layers)


DENSE: Final = of(HEADS, WIDE)
MIXED: Final = of(HEADS, WIDE, EXPERTS)
LATENTS: Final = of(LATENT, WIDE, EXPERTS)
NETWORKS: Final = {
    "dense": DENSE,
    "grouped": of(GROUPED, WIDE),
    "window": of(replace(GROUPED, window=6), WIDE),
    "mixed": MIXED,
    "latents": LATENTS,
    "parallel": _side_by_side(of(HEADS, WIDE, EXPERTS)),
    "narrow": of(HEADS, replace(EXPERTS, latent=8)),
    "limited": of(GROUPED, replace(EXPERTS, groups=4, active_groups=2)),
}


def laid(
    network: Architecture,
    layout: Layout,
    *,
    node: Node = BOXES,
    offload: Offload = KEPT,
    **options: Any,
) -> Deployment:
    """The network in a layout, in boxes of eight unless other ones are given."""
    one = deployed(network, node=with_host(node), **options)
    return replace(one, layout=layout, offload=offload)


def with_host(node: Node) -> Node:
    """The node with wires from its devices to the host."""
    links = {**node.gpu.links, "pcie": replace(wires(8.0), kind="pcie")}
    return replace(node, gpu=replace(node.gpu, links=links))


def stages_of(deployment: Deployment) -> tuple[Stage, ...]:
    """Stages of a deployment's pipeline."""
    return pipeline(deployment.architecture, deployment.layout, deployment.node)


def fits(layout: Layout, network: Architecture) -> bool:
    """Whether the degrees suit the networks above and their boxes."""
    mixture = any(isinstance(block.feedforward, Moe) for block in network.kinds)
    devices = int(layout.devices)
    even = devices % -(-devices // BOXES.gpus) == 0
    return even and (mixture or (layout.dp == 1 and layout.ep == 1))


@st.composite
def spreads(draw: st.DrawFn, *, pp: bool = True) -> tuple[str, Layout]:
    """A kind of network and a layout of it."""
    kind = draw(st.sampled_from(sorted(NETWORKS)))
    return kind, draw(layouts_of(kind, pp=pp))


def layouts_of(kind: str, *, pp: bool = True) -> st.SearchStrategy[Layout]:
    """Layouts of a kind of network."""
    return _layouts(pp).filter(lambda layout: fits(layout, NETWORKS[kind]))


@st.composite
def _layouts(draw: st.DrawFn, pp: bool) -> Layout:
    tp, cp, dp = (draw(st.sampled_from(some)) for some in ((1, 2, 4, 8), (1, 1, 2), (1, 2, 4)))
    stage = tp * cp * dp
    ep = draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if stage % n == 0]))
    return Layout(
        tp,
        cp,
        dp,
        ep,
        pp=draw(st.integers(1, 4)) if pp else 1,
        sequence_parallel=draw(st.booleans()),
        microbatches=draw(st.sampled_from([0, 0, 1, 3])),
    )


def axis(layouts: list[Layout]) -> Layout:
    """Layouts of one stage that all have, or have not, sequence parallelism, as one axis."""
    tp, cp, dp, ep = (
        np.array([float(getattr(one, name)) for one in layouts])
        for name in ("tp", "cp", "dp", "ep")
    )
    return replace(layouts[0], tp=tp, cp=cp, dp=dp, ep=ep)
