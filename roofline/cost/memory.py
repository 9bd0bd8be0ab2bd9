"""Device memory of a deployment: weights, cache, activations, and what is left for the cache."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.kernels.form import longest
from roofline.cost.layout import Layout, Stage, different, pipeline
from roofline.cost.weights import adapter_bytes, outside_bytes, weight_bytes
from roofline.cost.work import Number, anywhere, chosen, plus, scaled
from roofline.model.architecture import Block
from roofline.part import Part


@dataclass(frozen=True, slots=True)
class Memory:
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


@dataclass(frozen=True, slots=True)
class Held:
    """Memory that a batch takes of a device, in the fullest stage; arrays for an axis. [B]"""

    weights: Number
    activations: Number
    kv: Number
    host: Number
    buffer: Number
    """Parts of `Memory`."""
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
) -> Memory:
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
    return Memory(
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


def memory_budget(deployment: Deployment, parts: Held, utilization: float | None = None) -> Number:
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
) -> Held:
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
    return Held(held_weights, activations, kv, host, buffer, number, adapters)


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
