"""Drafters: a model of its own, a layer or heads on top of the target, or the text itself.

What drafts is a deployment like any other, on the target's devices: a layer that predicts further
tokens is a network of one layer, a Medusa head one of none.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout, Stage
from roofline.cost.memory import kv_bytes_per_sequence, layer_bytes, outside_bytes, weight_bytes
from roofline.cost.roof import StepTime, parts, roof
from roofline.cost.step import SequenceGroup, step
from roofline.cost.work import Op
from roofline.errors import InputError
from roofline.model.architecture import Architecture, Block, Linear
from roofline.model.huggingface.layers import block_parameters
from roofline.records import replace

Kind = Literal["model", "mtp", "eagle", "medusa", "ngram"]
OWN: Final[tuple[Kind, ...]] = ("mtp", "eagle", "medusa", "ngram")
"""Drafts that are no model of their own, by the name they are asked for."""
MTP: Final = "multi-token prediction"
"""Name that networks give the parameters of layers that predict further tokens."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafter and its deployment."""

    kind: Kind
    """``"model"``: a network of its own. ``"mtp"``, ``"eagle"``: a layer that takes the target's
    last hidden state and the token after it; embedding and LM head are the target's.
    ``"medusa"``: heads on that state, one for each position. ``"ngram"``: what followed the
    last tokens where they stood before."""
    title: str
    """Name in words."""
    deployment: Deployment | None = field(default=None, repr=False)
    """One drafting pass, or one head; None where the device does nothing."""

    @property
    def sequential(self) -> bool:
        """Whether a drafted token is needed for the next one."""
        return self.kind in ("model", "mtp", "eagle")

    @property
    def feeds_on_target(self) -> bool:
        """Whether it takes the target's hidden states, so that accepted tokens pass it again."""
        return self.kind in ("mtp", "eagle")


NGRAM: Final = Draft("ngram", "n-grams of the text")


def model(deployment: Deployment) -> Draft:
    """A network of its own that drafts token by token."""
    network = deployment.architecture
    if network.is_encoder or not network.causal:
        raise InputError(
            f"{network.name} does not generate token by token", hint="draft with a decoder"
        )
    return Draft("model", network.name, deployment)


def mtp(target: Deployment) -> Draft:
    """The target's layer that predicts further tokens, used again for each of them.

    Norms of state and embedding, a projection of both to one width, a layer, a norm.
    Source: DeepSeek-V3 technical report (2024), section 2.2. InputError where the network has none,
    or one that is not like its other layers.
    """
    network = target.architecture
    counted = network.other_parameters.get(MTP)
    if counted is None:
        raise InputError(
            f"{network.name} has no layer that predicts further tokens",
            hint="draft with eagle, medusa, ngram or a model",
        )
    head = _on_top(target, norms=2, last_norm=network.d_model)
    if counted % (block_parameters(_layer(head), network.d_model) + network.d_model):
        raise InputError(
            f"the layer of {network.name} that predicts further tokens is not like its others, "
            "and is not priced",
            hint="draft with ngram or a model",
        )
    return Draft("mtp", "multi-token prediction", head)


def eagle(target: Deployment) -> Draft:
    """A layer like the target's last that goes on with its hidden states.

    A projection of state and embedding to one width, and a layer, not quantised. Source: Li et al.
    2024 (EAGLE, arXiv 2401.15077), section 3.1. EAGLE-3 takes states of three layers and may have a
    smaller vocabulary. InputError for experts or a state: their head has a shape of its own.
    """
    last = _last(target.architecture)
    if last.experts or None in (last.mixer, last.feedforward):
        raise InputError(
            f"an EAGLE head for {target.architecture.name} is not like its layers",
            hint="draft with a model: the head's own config.json",
        )
    head = _on_top(target, norms=0, last_norm=0)
    return Draft("eagle", "an EAGLE head", _plain(head))


def _plain(head: Deployment) -> Deployment:
    """The same layer in the format of what quantisers leave alone: heads are trained apart."""
    network, block = head.architecture, _layer(head)
    formats = tuple((role, network.plain_format) for role in block.roles(network.d_model))
    return replace(head, architecture=replace(network, layers=(replace(block, formats=formats),)))


def medusa(target: Deployment) -> Draft:
    """Heads that each predict a further token from the target's last hidden state.

    A D×D layer with a residual, and an LM head of its own, not quantised. Source: Cai et al. 2024
    (Medusa, arXiv 2401.10774), section 2.1.1.
    """
    network, d = target.architecture, target.architecture.d_model
    block = Block(
        None,
        None,
        norms=0,
        norm_parameters=0,
        extra=(Linear("medusa", d, d, biased=d, split="none"),),
        formats=(("medusa", network.plain_format),),
    )
    head = replace(
        network, layers=(block,), tied_embeddings=False, final_norm_parameters=0, head_format=""
    )
    layout = Layout(tp=target.layout.tp)
    return Draft("medusa", "Medusa heads", replace(target, architecture=head, layout=layout))


def _on_top(target: Deployment, norms: int, last_norm: int) -> Deployment:
    """The target with a single layer, after a projection of state and embedding to one width."""
    network, d, last = target.architecture, target.architecture.d_model, _last(target.architecture)
    block = replace(
        last,
        norms=last.norms + norms,
        norm_parameters=last.norm_parameters + norms * d,
        extra=(*last.extra, Linear("draft-in", d, 2 * d, split="none")),
        formats=(*last.formats, ("draft-in", network.plain_format)),
    )
    head = replace(network, layers=(block,), final_norm_parameters=last_norm)
    return replace(target, architecture=head)


def _last(network: Architecture) -> Block:
    """The last layer that leans on no other one for what it attends to."""
    for block in reversed(network.layers):
        index = block.mixer.index if block.mixer is not None else None
        if index is None or index.computes:
            return block
    return network.layers[-1]


def _layer(head: Deployment) -> Block:
    return head.architecture.layers[0]


def rolls_back(network: Architecture) -> bool:
    """Whether layers keep a state, which a token that is refused has changed already."""
    return network.keeps_state


def pass_(
    draft: Draft, target: Deployment, group: SequenceGroup, rows: Literal["last", "all"] = "last"
) -> StepTime:
    """Time of a drafting pass, or of one head, as `pass_ops` has them."""
    deployment, ops = pass_ops(draft, target, group, rows)
    return parts((op, roof(op, deployment, float(op.repeat))) for op in ops)


def pass_ops(
    draft: Draft, target: Deployment, group: SequenceGroup, rows: Literal["last", "all"] = "last"
) -> tuple[Deployment, Collection[Op]]:
    """Deployment that runs a drafting pass, or one head, and the operators of that.

    Args:
        draft, target: What drafts, for what.
        group: Sequences of the target's replica, with the tokens that go through the pass.
        rows: Whether only the last of them, or each, predicts.
    """
    deployment = draft.deployment
    assert deployment is not None, "what costs nothing has no pass"
    if deployment.layout.dp == 1:  # groups of the target each draft for sequences of their own
        group = replace(group, count=np.ceil(group.count / target.layout.dp))
    if draft.kind == "medusa":
        stage = Stage(tuple(deployment.architecture.kinds.items()), first=False, last=True)
        group = replace(group, new=1.0, context=1.0)
    else:
        stage = Stage(tuple(deployment.architecture.kinds.items()), first=True, last=True)
        deployment = replace(deployment, options=replace(deployment.options, logits=rows))
    return deployment, step(deployment, group, stage).values()


def held(
    draft: Draft, target: Deployment, batch: int, context: int, heads: int
) -> tuple[float, float]:
    """Weights and cache of what drafts, on each device. [B]

    Its activations are taken to fit where the target's are while that runs.

    Args:
        draft, target: What drafts, for what.
        batch: Sequences of the target's replica. [1]
        context: Of each. [token]
        heads: Tokens drafted in a row: as many Medusa heads. [1]
    """
    deployment = draft.deployment
    if deployment is None:
        return 0.0, 0.0
    network, width = deployment.architecture, deployment.precision.head.width
    if draft.kind == "medusa":
        head = outside_bytes(deployment, first=False, last=True)
        return float(heads * (layer_bytes(deployment, _layer(deployment)) + head)), 0.0
    weights = weight_bytes(deployment)
    if draft.feeds_on_target:
        own = layer_bytes(deployment, _layer(deployment))
        weights = own + network.final_norm_parameters * width
    mine = np.ceil(batch / target.layout.dp)
    return float(weights), float(mine * kv_bytes_per_sequence(deployment, float(context)))


def check_layout(layout: Layout) -> None:
    """Refuse layouts with stages or shared contexts: drafts are not priced for them."""
    if layout.pp != 1 or layout.cp != 1:
        raise InputError(
            f"speculative decoding under {layout} is not priced",
            hint="use tensor, expert and attention data parallelism",
        )


def draft_layout(target: Deployment, tp: int | None) -> Layout:
    """Layout of a draft model: the devices that share the target's matrices, or fewer."""
    most = int(target.layout.tp)
    if tp is not None and not 1 <= tp <= most:
        raise InputError(
            f"{tp} devices share its matrices, {most} those of the target",
            hint=f"give `draft_tp=1` to {most}" if most > 1 else "leave `draft_tp` out",
        )
    return Layout(tp=tp or most)


def named(kind: Kind, target: Deployment) -> Draft:
    """One of the drafts that are no model of their own."""
    if kind == "ngram":
        return NGRAM
    return {"mtp": mtp, "eagle": eagle, "medusa": medusa}[kind](target)
