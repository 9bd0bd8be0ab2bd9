"""Operators of towers: pictures and sound of a prompt pass them once, before the prompt."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from roofline.cost.deployment import KEPT
from roofline.cost.layers import blocks
from roofline.cost.layers.common import Pass, is_one, split
from roofline.cost.layout import Layout
from roofline.cost.work import Op, times
from roofline.model.architecture import Block
from roofline.model.tower import TEXT_ALONE, Tower, encoding


def operators(p: Pass) -> Iterator[Op]:
    """Towers and projectors over the pictures and recordings of prompts that begin.

    Devices of a tensor-parallel group share a tower where its heads divide over them; else each
    runs it whole. Matrices are in the format of the embedding, as quantised checkpoints leave them.
    """
    deployment = p.deployment
    for tower in encoding(deployment.architecture, deployment.options.media):
        yield from _encoded(p, tower)


def _encoded(p: Pass, tower: Tower) -> Iterator[Op]:
    """Operators of one tower."""
    deployment, media = p.deployment, p.deployment.options.media
    each, outputs = float(tower.positions(media)), float(tower.outputs(media))
    plain = deployment.precision.head.name
    network = replace(
        deployment.architecture, d_model=tower.width, layers=tower.layers, causal=False, towers=()
    )
    shared = tower.devices(p.tp)
    alone = replace(deployment.options, media=TEXT_ALONE)
    inside = replace(
        deployment, architecture=network, options=alone, layout=Layout(tp=shared), offload=KEPT
    )
    for name, count, new, context in p.groups:
        if np.any(np.asarray(new) != context):
            continue  # what was encoded is in the cache
        number = times(count, float(tower.passes(media)))
        of_group = replace(
            p,
            deployment=inside,
            groups=((name, number, each, each),),
            tokens=times(number, each),
            rows=number,
            everyone=times(number, each),
            tp=shared,
            copies=1.0,
        )
        apart = of_group
        if tower.squares and tower.squares < each:
            # Neighbours see each other only: as many sequences as there are squares of them.
            among = float(tower.squares)
            apart = replace(of_group, groups=((name, times(number, each / among), among, among),))
        for block, layers in network.kinds.items():
            whole = min(tower.whole, layers) if block == tower.layers[-1] else 0
            for own, repeat, told in ((apart, layers - whole, ""), (of_group, whole, "-of-all")):
                for op in blocks.block(own, _plain(block, tower.width, plain), repeat):
                    ending = told if op.kind == "prefill-attention" else ""
                    if repeat:
                        yield _encoding(op, tower, ending)
        last = replace(
            of_group,
            tokens=times(count, outputs),
            block=Block(None, None, 0, 0, formats=tuple((m.name, plain) for m in tower.projector)),
        )
        for matrix in tower.projector:
            for op in split(last, matrix, 1):
                yield _encoding(op, tower)


def prompts(p: Pass) -> tuple[Iterator[Op], Pass]:
    """Encoder over the prompts of a step, and the decoder's own pass: one token of each of them.

    What the decoder attends to, in one kernel here, is the prompt and its own tokens, which are as
    many together as in a network that reads its prompts itself. Source: Raffel et al. 2019 (arXiv
    1910.10683), section 2.1.
    """
    prompted = not all(is_one(new) for _, _, new, _ in p.groups)
    if not (prompted and p.deployment.architecture.encoder):
        return iter(()), p
    first = tuple((name, count, 1.0, context) for name, count, _, context in p.groups)
    own = replace(p, groups=first, tokens=p.rows, everyone=p.everyone * (p.rows / p.tokens))
    return _read(p), own


def _read(p: Pass) -> Iterator[Op]:
    """Operators of an encoder of prompts, and of keys and values of what it puts out."""
    network = p.deployment.architecture
    inside = replace(
        network, layers=network.encoder, causal=False, encoder=(), encoder_projector=()
    )
    of_prompts = replace(p, deployment=replace(p.deployment, architecture=inside))
    for block, layers in inside.kinds.items():
        for op in blocks.block(of_prompts, block, layers):
            yield replace(op, name=f"encoder-{op.name}")
    for matrix in network.encoder_projector:
        yield from split(replace(p, block=None), matrix, 1)


def _encoding(op: Op, tower: Tower, ending: str = "") -> Op:
    """An operator of the tower, under a name that says so."""
    return replace(op, name=f"{tower.medium}-{op.name}{ending}", encodes=True)


def _plain(block: Block, width: int, plain: str) -> Block:
    """The layer with all its matrices in one format."""
    return replace(block, formats=tuple((role, plain) for role in block.roles(width)))
