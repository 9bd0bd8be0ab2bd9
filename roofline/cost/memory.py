"""Device memory of a deployment: weights, cache, activations, and what is left for the cache.

Weights come first: each matrix is split between devices, repeated, padded or spread.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.expert_parallel import held_experts
from roofline.cost.kernels.form import longest
from roofline.cost.layout import Layout, Stage, different, padded, pipeline
from roofline.cost.work import Number, anywhere, chosen, plus, scaled, total
from roofline.model.architecture import Block, Linear
from roofline.model.linear import ROUTER
from roofline.model.precision import named
from roofline.part import Part
from roofline.records import replace
from roofline.units import BITS_PER_BYTE


def weight_bytes(deployment: Deployment, stage: Stage | None = None) -> Number:
    """Weights on one device, those of experts that it holds included. [B]

    Matrices are split over the tensor-parallel group, key/value projections only as far as there
    are heads; norms are on every device; embedding and LM head are split by vocabulary. Experts are
    spread over their groups. Where each device sends them tokens of its own, it has shared experts
    whole.

    Source: Shoeybi et al. 2019 (arXiv 1909.08053) for what is split.

    Args:
        deployment: Network, formats and layout.
        stage: Stage of the pipeline; None for all layers.
    """
    network = deployment.architecture
    here = stage or Stage(tuple(network.kinds.items()), first=True, last=True)
    total: Number = outside_bytes(deployment, here.first, here.last)
    for block, layers in holding(here):
        total = total + layers * layer_bytes(deployment, block)
    return total


def holding(stage: Stage) -> list[tuple[Block, int]]:
    """Kinds of layers of a stage, with the number of those whose weights it holds. [1]

    Layers that use the weights of earlier ones hold none, or a copy where those are on another
    stage. Source: definition of `roofline.model.architecture.Block.owners`.

    Args:
        stage: Stage of the pipeline.
    """
    own = {block for block, _ in stage.layers}
    held = []
    for block, layers in stage.layers:
        if not block.owners:
            held.append((block, layers))
        elif replace(block, owners=0) not in own:
            held.append((block, min(layers, block.owners)))
    return held


def outside_bytes(deployment: Deployment, first: bool, last: bool) -> Number:
    """Embedding, LM head and what else is outside the layers, on the stages that have them. [B]

    Source: as `weight_bytes`.

    Args:
        deployment: Network, formats and layout.
        first, last: Whether the stage has the embedding, and the LM head.
    """
    return total(outside_parts(deployment, first, last))


def outside_parts(deployment: Deployment, first: bool, last: bool) -> Iterator[Part]:
    """`outside_bytes` by what it is made of.

    Source: as `weight_bytes`.

    Args:
        deployment, first, last: As for `outside_bytes`.
    """
    network, stored, tp = deployment.architecture, deployment.precision.head, deployment.tp
    rows, wide, tied = padded(network.vocab, tp), network.embedding_width, network.tied_embeddings
    embedded = min(stored, named(network.plain_format), key=lambda each: each.width)

    def plain(name: str, parameters: Number) -> Part:
        symbols = {"parameters": parameters, "bytes": stored.width}
        return Part(name, parameters * stored.width, "parameters · bytes", symbols)

    def table(name: str) -> Part:
        symbols = {"V": network.vocab, "TP": tp, "width": wide, "bytes": embedded.width}
        text = "ceil(V[ / TP]) · width · bytes"
        return Part(name, rows * wide * embedded.width, text, symbols, f"stored as {embedded.name}")

    if first:
        yield table("embedding" + " and LM head" * (tied and last))
        yield plain("positions", network.position_rows * network.d_model)
        yield plain("norm of the embedding", network.embedding_norm_parameters)
        if network.seen_parameters:
            sharing = tp
            for tower in network.towers:
                sharing = np.minimum(sharing, tower.devices(tp))
            yield Part(
                "what is before the decoder",
                network.seen_parameters / sharing * stored.width,
                "parameters[ / sharing] · bytes",
                {"parameters": network.seen_parameters, "sharing": sharing, "bytes": stored.width},
                "TP where the heads of every tower divide over it, else 1",
            )
    for linear, here in zip(network.projections, (first, last), strict=False):
        if here:
            yield _matrix(deployment, None, replace(linear, split="none"), 1.0)
    if last:
        yield plain("final norm", network.final_norm_parameters)
        if not tied:
            head = Linear("lm-head", int(network.vocab), wide)
            yield _matrix(deployment, None, head, tp)
        elif not first:  # on another device than the embedding
            yield table("LM head")
        if network.head_bias:
            yield plain("biases of the LM head", rows)


def layer_bytes(deployment: Deployment, block: Block) -> Number:
    """Weights of one layer on one device. [B]

    Source: as `weight_bytes`.

    Args:
        deployment, block: Network, formats and layout; the layer.
    """
    return total(layer_parts(deployment, block))


def layer_parts(deployment: Deployment, block: Block) -> Iterator[Part]:
    """`layer_bytes` by matrix.

    Source: as `weight_bytes`.

    Args:
        deployment, block: As for `layer_bytes`.
    """
    d, layout = deployment.architecture.d_model, deployment.layout
    for linear in _linears(deployment, block):
        tp = layout.sharing(linear.group)
        yield _matrix(deployment, block, linear, tp, _repeated(block, linear, tp))
    routing = deployment.options.routing
    symbols, experts = {"E": block.experts, "EP": layout.ep}, "E"
    if routing.redundant:
        symbols, experts = {**symbols, "redundant": routing.redundant}, "(E + redundant)"
    for linear in block.expert_linears(d):
        one = _matrix(deployment, block, linear, layout.sharing(linear.group))
        yield replace(
            one,
            value=held_experts(block.experts, layout.ep, routing) * one.value,
            formula=f"ceil({experts}[ / EP]) · " + one.formula,
            symbols={**one.symbols, **symbols},
            source=f"{one.source}; TP · CP · DP / EP devices share one",
        )
    others, width = _others(block, deployment), deployment.precision.activations.width
    symbols = {"parameters": others, "width": width}
    yield Part("norms and biases", others * width, "parameters · width", symbols)


def adapter_parts(deployment: Deployment, block: Block) -> Iterator[Part]:
    """One LoRA adapter of a layer on one device, by the matrix that it is added to. [B]

    R·(in + out) elements for each layer of the checkpoint, of what the device has of that layer:
    all of A and a part of B where outputs are split, a part of A and all of B where inputs are.
    Source: as `roofline.cost.layers.common.adapted`.

    Args:
        deployment, block: Adapters, formats and layout; the layer.
    """
    lora, layout = deployment.options.lora, deployment.layout
    width = deployment.precision.activations.width
    for linear in block.linears(deployment.architecture.d_model):
        joined = lora.modules(block, linear.name)
        if not joined:
            continue
        tp = layout.sharing(linear.group)
        repeated = _repeated(block, linear, tp)
        n = linear.n / tp if linear.split == "column" else float(linear.n)
        k = linear.k / tp if linear.split == "row" else float(linear.k)
        inputs, outputs = _ADAPTER[linear.split]
        yield Part(
            f"adapter of {linear.name}",
            lora.lora_rank * (joined * k + n * repeated) * width,
            f"R · ({inputs}[ · joined] + {outputs}) · width",
            {
                "R": lora.lora_rank,
                "joined": joined,
                "n": linear.n,
                "k": linear.k,
                "TP": tp,
                "repeated": repeated,
                "width": width,
            },
        )


def adapter_bytes(deployment: Deployment, layers: Iterable[tuple[Block, int]]) -> Number:
    """One LoRA adapter of some layers on one device. [B]

    Source: sum of `adapter_parts`.

    Args:
        deployment: Adapters, formats and layout.
        layers: Layers, and the number of each.
    """
    if not deployment.options.lora.adapters:
        return 0.0
    out: Number = 0.0
    for block, number in layers:
        out = out + number * total(adapter_parts(deployment, block))
    return out


_ADAPTER: Final = {
    "column": ("k", "n[ / TP][ · repeated]"),
    "row": ("k[ / TP]", "n"),
    "none": ("k", "n"),
}
"""Input and output width of a matrix on one device by how it is split."""
_MATRIX: Final = {
    "column": "n[ / TP] · (k · bytes[ + scale])[ · repeated]",
    "row": "n · (k[ / TP] · bytes[ + scale])",
    "none": "n · (k · bytes[ + scale])",
}
"""A matrix on one device by how it is split; each row may have a scale."""


def _matrix(
    deployment: Deployment, block: Block | None, linear: Linear, tp: Number, repeated: Number = 1.0
) -> Part:
    """One matrix on one device, in the format of its role, with scales. [B]"""
    stored = named(deployment.stored(block, linear.name))
    head = linear.name == "lm-head"
    rows = padded(linear.n, tp) if head else linear.n / tp
    n = rows if linear.split == "column" else float(linear.n)
    k = linear.k / tp if linear.split == "row" else float(linear.k)
    scale = stored.row_bits / BITS_PER_BYTE
    return Part(
        linear.name,
        (n * k * stored.width + n * stored.row_bits / BITS_PER_BYTE) * repeated,
        _PADDED if head else _MATRIX[linear.split],
        {
            "n": linear.n,
            "k": linear.k,
            "bytes": stored.width,
            "scale": scale,
            "TP": tp,
            "repeated": repeated,
        },
        f"stored as {stored.name}",
    )


_PADDED: Final = "ceil(n[ / TP]) · (k · bytes[ + scale])"


def _repeated(block: Block, linear: Linear, tp: Number) -> Number:
    """Size of the fused q, k, v matrix over that without repeated key/value heads. [1]"""
    return 1.0 if block.mixer is None else block.mixer.repeated(linear, tp)


def _linears(deployment: Deployment, block: Block) -> list[Linear]:
    """Matrices of every token; without a router where tokens come routed."""
    every = block.linears(deployment.architecture.d_model)
    return [each for each in every if not (deployment.fed and each.name == ROUTER)]


def _others(block: Block, deployment: Deployment) -> Number:
    """Norms, biases and other parameters of a layer on one device. [parameter]"""
    layout, d_model = deployment.layout, deployment.architecture.d_model
    tp = layout.tp
    total: Number = float(block.norm_parameters + block.extra_parameters)
    d_free = 1.0 / tp
    if block.mixer is not None:
        total = total + block.mixer.repeated_biases(tp) + block.mixer.other_share(tp)
    for linear in _linears(deployment, block):
        if linear.name != "qkv":
            total = total + linear.biased * (d_free if linear.split == "column" else 1.0)
    if block.feedforward is not None:
        total = total + block.feedforward.other_parameters
    experts = block.expert_linears(d_model)
    if experts:
        each = (n.biased / layout.expert_tp if n.split == "column" else n.biased for n in experts)
        here = held_experts(block.experts, layout.ep, deployment.options.routing)
        total = total + here * sum(each)
    return total


class MemoryBudget(Struct, frozen=True):
    """Budget of one device: of the fullest stage where there are several. All in bytes."""

    capacity: float
    budget: float
    """Memory of the device that software can use, and the share of it that the engine takes."""
    weights: float
    """Weights, those of LoRA adapters included."""
    activations: float
    runtime: float
    graphs: float
    """Taken whatever is cached: ``activations`` is the peak of the largest step."""
    kv: float
    """Cache of the batch at its longest context."""
    host: float = 0.0
    """Kept in the host's memory or storage for this device, not part of the others."""
    buffer: float = 0.0
    """Layers on their way from there."""
    stage: int = 0
    """Number of the stage in the pipeline, the first one being 0. [1]"""
    adapters: float = 0.0
    """Part of the weights that LoRA adapters take."""

    @property
    def pool(self) -> float:
        """Left for the cache; negative where not even the weights fit. [B]"""
        fixed = self.weights + self.activations + self.runtime + self.graphs + self.buffer
        return self.budget - fixed

    @property
    def free(self) -> float:
        """Left beside the cache of this batch; negative where it does not fit. [B]"""
        return self.pool - self.kv

    @property
    def fits(self) -> bool:
        """True where the batch fits at its longest context."""
        return self.free >= 0


class MemoryUse(Struct, frozen=True):
    """Memory that a batch takes of a device, in the fullest stage; arrays for an axis. [B]"""

    weights: Number
    activations: Number
    kv: Number
    host: Number
    buffer: Number
    """Parts of `MemoryBudget`."""
    stage: Number = 0.0
    """Number of the stage among those that differ. [1]"""
    adapters: Number = 0.0
    """Part of the weights that LoRA adapters take."""

    @property
    def taken(self) -> Number:
        """All of it that is on the device. [B]"""
        return self.weights + self.activations + self.kv + self.buffer


def kv_bytes_per_sequence(
    deployment: Deployment,
    context: Number,
    *,
    one_page_table: bool = False,
    stage: Stage | None = None,
) -> Number:
    """Cache of one sequence on one device: keys and values, latents, indices, states.

    Sum over layers of 2·K·H·min(S, W) elements, C + r for latent attention, the index's bytes, and
    a constant for recurrent layers. [B] Rounding up to pages is left out. Source: Pope et al. 2022
    (arXiv 2211.05102), section 2.

    Args:
        deployment: Network, formats and layout.
        context: Tokens of the sequence. [token]
        one_page_table: Whether layers with a window or chunks keep every token, as engines do that
            manage all layers with one table of pages.
        stage: Stage of the pipeline; None for all layers.
    """
    layers = stage.layers if stage is not None else deployment.architecture.kinds.items()
    total: Number = 0.0
    for block, number in layers:
        total = total + number * kept(deployment, block, context, one_page_table).value
    return total


def kept(
    deployment: Deployment, block: Block, context: Number, one_page_table: bool = False
) -> Part:
    """Cache of one sequence in one layer on one device, with the formula that makes it. [B]

    Source: definitions of the kinds of layer in `roofline.model`.

    Args:
        deployment, block: Network, formats and layout; the layer.
        context: Tokens of the sequence. [token]
        one_page_table: As in `kv_bytes_per_sequence`.
    """
    precision, cp = deployment.precision, deployment.layout.cp
    if block.mixer is None:
        return Part("layers", 0.0)
    part = block.mixer.kept(
        context,
        tp=deployment.tp,
        kv=precision.kv.width,
        width=precision.activations.width,
        whole=one_page_table,
    )
    text = part.formula + "[ / CP]" * bool(part.formula)
    return replace(part, value=part.value / cp, formula=text, symbols={**part.symbols, "CP": cp})


def budget(
    deployment: Deployment,
    *,
    batch: float,
    context: float,
    step_tokens: float,
    step_rows: float,
    utilization: float | None = None,
    cached: bool = True,
    further: float = 0.0,
    own: float = 0.0,
) -> MemoryBudget:
    """Memory of one device for a batch at its longest context: of the stage with least to spare.

    Source: the sum of the parts of `held`; reserves are the engine's, from its file.

    Args:
        deployment: Network, node, formats, layout and engine.
        batch, context, step_tokens, step_rows, cached, further, own: As for `held`.
        utilization: Share of the device that the engine takes; None for the engine's default. [1]
    """
    parts = held(
        deployment,
        batch=batch,
        context=context,
        step_tokens=step_tokens,
        step_rows=step_rows,
        cached=cached,
        further=further,
        own=own,
    )
    return MemoryBudget(
        capacity=deployment.node.gpu.memory_bytes,
        budget=float(memory_budget(deployment, parts, utilization)),
        weights=float(parts.weights),
        activations=float(parts.activations),
        runtime=deployment.engine.runtime_bytes,
        graphs=deployment.graph_bytes,
        kv=float(parts.kv),
        host=float(parts.host),
        buffer=float(parts.buffer),
        stage=_number(deployment, int(parts.stage)),
        adapters=float(parts.adapters),
    )


def memory_budget(
    deployment: Deployment, parts: MemoryUse, utilization: float | None = None
) -> Number:
    """Device memory that the engine uses for everything, the KV cache included. [B]

    With C bytes on a device, W of weights and F of weights, activations, runtime, graphs and
    buffers, a share u is u·C where it is of the device, F + u·(C − F) where it is of what is free,
    and u·C + F − W, C at most, where it is of weights and KV cache alone. Source: the settings that
    `roofline.interop.commands.memory` converts between.

    Args:
        deployment: Device and engine.
        parts: What a batch takes; its cache does not matter. [B]
        utilization: Share of the device that the engine takes; None for the engine's default. [1]
    """
    capacity, engine = deployment.node.gpu.memory_bytes, deployment.engine
    if utilization is not None:
        return capacity * utilization
    share = engine.memory_utilization_on(deployment.node.gpu)
    if engine.memory_of == "device":
        return capacity * share
    others = parts.activations + parts.buffer + engine.runtime_bytes + deployment.graph_bytes
    if engine.memory_of == "free":
        fixed = parts.weights + others
        return fixed + share * (capacity - fixed)
    return np.minimum(share * capacity + others, capacity)


def _number(deployment: Deployment, kind: int) -> int:
    """Place in the pipeline of the first stage of a kind. [1]"""
    if deployment.layout.pp == 1:
        return 0
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    wanted = different(stages)[kind]
    places = (stage.layers == wanted.layers and stage.first == wanted.first for stage in stages)
    return next(place for place, found in enumerate(places) if found)


def held(
    deployment: Deployment,
    *,
    batch: Number,
    context: Number,
    step_tokens: Number,
    step_rows: Number,
    cached: bool = True,
    further: float = 0.0,
    own: float = 0.0,
) -> MemoryUse:
    """Memory of a device that a batch takes.

    A device holds 1/d of the sequences, rounded up, and computes 1/c of the tokens of a step.
    Offloaded shares are on the host; two of the layers that have to be loaded are under way.
    Adapters have room for as many as are kept, each of the rank: vLLM allocates ``max_loras`` slots
    of ``max_lora_rank`` before the cache (0.11, lora/layers, ``create_lora_weights``).
    Source: the sum of the parts above.

    Args:
        deployment: Network, node, formats, layout and what is offloaded.
        batch: Sequences held at once. [1]
        context: Their longest context. [token]
        step_tokens, step_rows: New tokens and rows of logits in the largest step. [token]
        cached: False where nothing is cached between steps.
        further: Answers or beams of each sequence beside its first one. [1]
        own: Tokens that each of them keeps beside those of the first. [token]
    """
    layout, offload = deployment.layout, deployment.offload
    mine = np.ceil(batch / layout.dp)
    if most := deployment.engine.micro_batch_tokens:
        step_tokens = np.minimum(step_tokens, most * layout.dp)
    rows, tokens = np.ceil(step_rows / layout.dp), step_tokens / (layout.dp * layout.cp)
    activations = activation_peak(deployment, tokens, rows)
    if deployment.naive:
        new = tokens / np.maximum(rows, 1.0)
        activations = activations + naive_score_bytes(deployment, rows, new, context)
    activations = activations + _passed_around(deployment, context, step_tokens)
    parts = []
    for stage in different(pipeline(deployment.architecture, layout, deployment.node)):
        whole = weight_bytes(deployment, stage)
        layers = whole - outside_bytes(deployment, stage.first, stage.last)
        each = kv_bytes_per_sequence(deployment, context, stage=stage)
        if further:
            each = each + further * kv_bytes_per_sequence(deployment, own, stage=stage)
        cache: Number = mine * each if cached else 0.0
        kept_outside = scaled(offload.kv, cache)
        outside = plus(scaled(offload.weights, layers), kept_outside)
        under_way = scaled(outside, min(2.0 / sum(count for _, count in stage.layers), 1.0))
        lora = deployment.options.lora.kept * adapter_bytes(deployment, stage.layers)
        on_device = (whole - offload.weights * layers + lora, cache - kept_outside)
        parts.append((*on_device, outside, under_way, lora))
    held_weights, *others, adapters, number = _fullest(parts)
    kv, host, buffer = others
    return MemoryUse(held_weights, activations, kv, host, buffer, number, adapters)


def _passed_around(deployment: Deployment, context: Number, step_tokens: Number) -> Number:
    """Keys and values of one layer that devices which share a context bring to each other. [B]

    Of the contexts that a step's tokens make: gathered whole, or the part in use and the next one
    of a ring.
    """
    cp = deployment.layout.cp
    if not anywhere(cp != 1):
        return 0.0
    largest: Number = 0.0
    for block in deployment.architecture.kinds:
        largest = np.maximum(largest, kept(deployment, block, context).value * cp)
    share = 2.0 / cp if deployment.options.ring_attention else 1.0
    contexts = np.maximum(step_tokens / (deployment.layout.dp * context), 1.0)
    return np.where(np.asarray(cp) > 1, largest * share * contexts, 0.0)[()]


def _fullest(parts: Sequence[tuple[Number, ...]]) -> tuple[Number, ...]:
    """Weights, cache, what is outside, its buffer, adapters, of the fullest stage; its number."""
    if len(parts) == 1:
        return (*parts[0], 0.0)
    most = longest(*(part[0] + part[1] + part[3] for part in parts))
    columns = (chosen(most, column) for column in zip(*parts, strict=True))
    return (*columns, most.astype(np.float64)[()])


LOGIT_WIDTH = 4.0  # engines sample from fp32 logits


def activation_peak(deployment: Deployment, tokens: Number, rows: Number) -> Number:
    """Activations alive at once in a step, at their largest.

    The residual stream and its normed copy live through a layer; beside them either the inputs
    and outputs of the attention or those of the feed-forward part, or at the end the logits, in
    fp32 beside their 16-bit originals. [B] With naive attention, the scores and their softmax.
    Under sequence parallelism a device has 1/t of the tokens of the residual stream. Experts that
    are sent their tokens hold as many rows as one device has on average.
    Source: counting the buffers of the layers in `roofline.cost.layers`; Korthikanti et al. 2022
    (arXiv 2205.05198) for the split by tokens.

    Args:
        deployment: Network, formats and layout.
        tokens: New tokens of the step on one device. [token]
        rows: Rows of logits on one device. [1]
    """
    network, layout = deployment.architecture, deployment.layout
    width = deployment.precision.activations.width
    stream: Number = 2.0 * network.d_model
    if layout.sequence_parallel:
        stream = network.d_model * (1.0 + 1.0 / layout.tp)
    widest: Number = 0.0
    for block in network.kinds:
        widest = np.maximum(widest, _widest(block, layout))
    logits = rows * network.vocab * (width + LOGIT_WIDTH)  # gathered: whole on every device
    return tokens * stream * width + np.maximum(tokens * widest * width, logits)


def _widest(block: Block, layout: Layout) -> Number:
    """Inputs and outputs of the widest part of a layer, per token. [1]"""
    tp = layout.tp
    mixed: Number = block.mixer.activation_width(tp) if block.mixer is not None else 0.0
    fed: Number = 0.0
    if block.feedforward is not None:
        fed = block.feedforward.activation_width(tp, layout.sharing("shared"))
    return np.maximum(mixed, fed)


def naive_score_bytes(
    deployment: Deployment, count: Number, new: Number, context: Number
) -> Number:
    """Scores and probabilities of one layer where attention is not fused.

    2·N·T·S elements. [B] Source: standard attention of Dao et al. 2022 (arXiv 2205.14135).

    Args:
        deployment: Network, formats and layout.
        count: Sequences. [1]
        new, context: New tokens, and context with them. [token]
    """
    mixers = (block.mixer for block in deployment.architecture.kinds)
    heads = max((float(each.score_heads) for each in mixers if each is not None), default=0.0)
    scores = 2.0 * heads / deployment.tp * count * new * context
    return scores * deployment.precision.activations.width
