"""Derivations of what is kept in device memory."""

from roofline.cost.deployment import kv_heads_per_device
from roofline.model.architecture import Attention
from roofline.serving.explain.parts import config, fact, given
from roofline.serving.static import StaticBatch
from roofline.table import Derivation
from roofline.units import show_binary


def kv(batch: StaticBatch) -> Derivation:
    """Cache of the batch at its longest context, on one device."""
    deployment, work = batch.deployment, batch.workload
    inputs, terms = [], []
    for block, layers in deployment.architecture.kinds.items():
        part = block.mixer
        if not isinstance(part, Attention):
            continue
        seen = "S" if part.window is None else f"min(S, {part.window})"
        heads = kv_heads_per_device(part, deployment.tp)
        terms.append(f"{layers} · 2 · {heads:g} · {part.head_dim} · {seen}")
        inputs += [
            config(batch, "L", "layers", layers),
            config(batch, "K", "kv_heads", part.kv_heads),
            config(batch, "H", "head_dim", part.head_dim),
        ]
        if part.window is not None:
            inputs.append(config(batch, "W", "window", part.window))
    width = deployment.precision.kv.width
    if not work.kv_cache:
        return Derivation(
            "KV cache",
            0.0,
            "B",
            source="nothing is cached: the context is computed again for every token",
        )
    return Derivation(
        "KV cache",
        batch.memory.kv,
        "B",
        formula="B · sum over layers of 2 · max(K / TP, 1) · H · min(S, W) · bytes",
        substituted=f"{work.batch} · ({' + '.join(terms)}) · {width:g} B, S = {work.longest:,}",
        inputs=(
            *inputs,
            Derivation(
                "bytes per element", width, "B", source=f"{deployment.precision.kv.name} cache"
            ),
        ),
        source="2·K·H elements a token and layer",
        note="on one device; rounding up to pages is left out",
    )


def weights(batch: StaticBatch) -> Derivation:
    """Weights on one device."""
    deployment = batch.deployment
    network, stored = deployment.architecture, deployment.precision.weights
    return Derivation(
        "weights",
        batch.memory.weights,
        "B",
        formula="matrices · bytes / TP + (embedding + LM head) · bytes / TP + norms",
        inputs=(
            config(batch, "D", "d_model", network.d_model),
            config(batch, "V", "vocab", network.vocab),
            config(batch, "layers", "layers", len(network.layers)),
            Derivation(
                "bytes per matrix element",
                stored.width,
                "B",
                source=f"{stored.name}: {stored.source}",
            ),
            given("TP", deployment.tp, ""),
        ),
        note="on one device",
    )


def memory(batch: StaticBatch) -> Derivation:
    """Everything in the memory of one device."""
    held, gpu = batch.memory, batch.deployment.node.gpu
    engine = batch.deployment.engine
    key = "memory.visible" if "memory.visible" in gpu.facts else "memory.nominal"
    share = held.budget / held.capacity
    return Derivation(
        "memory in use",
        held.weights + held.activations + held.runtime + held.graphs + held.kv,
        "B",
        formula="weights + KV cache + activations + runtime + graphs",
        substituted=" + ".join(
            show_binary(value)
            for value in (
                held.weights,
                held.kv,
                held.activations,
                held.runtime,
                held.graphs,
            )
        ),
        inputs=(
            weights(batch),
            kv(batch),
            Derivation(
                "activations",
                held.activations,
                "B",
                formula="tokens · (2·D + widest layer) · bytes, or the logits",
                source="buffers alive at once in the largest step",
            ),
            Derivation(
                "runtime", held.runtime, "B", source=f"engine {engine.name}", basis="assumed"
            ),
            Derivation("graphs", held.graphs, "B", source=f"engine {engine.name}", basis="assumed"),
            fact(gpu, "capacity", key, held.capacity, "B"),
            Derivation("utilization", share, "", source=f"engine {engine.name} or given"),
        ),
        basis="assumed" if held.runtime or held.graphs else "datasheet",
        note=f"on one device; {show_binary(abs(held.free))} "
        + ("free of" if held.fits else "too much for")
        + f" {share:.0%} of {show_binary(held.capacity)}",
    )
