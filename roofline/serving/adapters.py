"""LoRA adapters of a static batch: their size, how many it touches, times with and without.

Adapters that are not on the device are loaded over the wires to the host when they are asked for.
"""

from typing import Any, Final

from roofline.cost.adapters import NO_ADAPTERS, hit_rate
from roofline.cost.deployment import Deployment
from roofline.cost.layout import SINGLE, different, pipeline
from roofline.cost.memory import adapter_bytes
from roofline.cost.step import outside_bytes_per_s
from roofline.cost.work import Op, Work
from roofline.records import replace
from roofline.serving.explain.operators import operator
from roofline.serving.explain.parts import derived
from roofline.serving.static import StaticBatch, static_batch
from roofline.table import Derivation, Table, table
from roofline.units import show

ADAPTER: Final = "adapter"
"""Kind of the operators of adapters."""


def one_adapter_bytes(deployment: Deployment) -> float:
    """One adapter on the device of a pipeline that has most of it. [B]"""
    stages = different(pipeline(deployment.architecture, deployment.layout, deployment.node))
    return max(float(adapter_bytes(deployment, stage.layers)) for stage in stages)


def load_s(deployment: Deployment) -> float:
    """Time to load one adapter from the host, all devices their parts at once. [s]

    Source: bytes over the rate of the wires to the host, as `roofline.cost.step.loads`.
    """
    return one_adapter_bytes(deployment) / outside_bytes_per_s(deployment)


def hits(deployment: Deployment) -> float:
    """Share of requests whose adapter is on the device. [1]"""
    lora = deployment.options.lora
    return hit_rate(lora.adapters, lora.adapter_skew, lora.kept)


def parameters(deployment: Deployment) -> float:
    """Parameters of one adapter of the whole network. [parameter]"""
    one = replace(deployment, layout=SINGLE)
    width = deployment.precision.activations.width
    return float(adapter_bytes(one, deployment.architecture.kinds.items())) / width


def adapter_table(batch: StaticBatch, ttft_idle_s: float) -> Table:
    """Figures of adapters, one row each; no rows without adapters.

    Args:
        batch: What was priced.
        ttft_idle_s: TTFT of one prompt alone, whose adapter is on the device. [s]
    """
    deployment, work = batch.deployment, batch.workload
    lora = deployment.options.lora
    columns = ("metric", "value", "without", "unit", "known", "meaning")
    if not lora.adapters:
        return table([], dict.fromkeys(columns, ""))
    plain = replace(deployment, options=replace(deployment.options, lora=NO_ADAPTERS))
    without = static_batch(plain, work, utilization=batch.utilization, operators=False)
    rows: list[tuple[Any, ...]] = [
        ("parameters", parameters(deployment), None, "parameter", "derived", "of one adapter"),
        ("one_adapter_bytes", one_adapter_bytes(deployment), None, "B", "derived", "on one device"),
        ("on_the_device", float(lora.kept), None, "", "setting", "adapters that are kept"),
    ]
    for phase, ops in (("prefill", batch.prefill), ("decode", batch.decode)):
        touched = [float(e.op.dims["adapters"]) for e in ops.values() if e.op.kind == ADAPTER]
        if touched:
            meaning = f"different ones of a {phase} step"
            rows.append((f"in_{phase}", touched[0], None, "", "derived", meaning))
    said = "assumed" if batch.calibrated else "datasheet"
    for name, unit, meaning in (
        ("ttft_s", "s", "static batch, last prompt"),
        ("tpot_s", "s", "decode steps alone"),
        ("throughput_tok_s", "token/s", "static batch, output of a replica"),
    ):
        value = getattr(batch, name)
        if value:
            rows.append((name, value, getattr(without, name), unit, said, meaning))
    if lora.moves:
        hit, load = hits(deployment), load_s(deployment)
        rows += [
            ("adapter_hit_share", hit, None, "", "derived", "of requests: theirs is there, LRU"),
            ("adapter_load_s", load, None, "s", "datasheet", "one adapter from the host"),
            ("ttft_of_a_miss_s", ttft_idle_s + load, None, "s", said, "one prompt alone"),
            ("ttft_added_s", (1.0 - hit) * load, None, "s", said, "to TTFT by misses, mean"),
        ]
    return table([dict(zip(columns, row, strict=True)) for row in rows], {})


def load_notes(deployment: Deployment, sequences: float = 0.0) -> list[str]:
    """Assumptions about adapters, a sentence each; none without them.

    Args:
        deployment: Network, layout and adapters.
        sequences: Of a step; 0 where it is not one number. [1]
    """
    lora = deployment.options.lora
    if not lora.adapters:
        return []
    how = "alike" if not lora.adapter_skew else f"by Zipf's law of exponent {lora.adapter_skew:g}"
    out = [
        f"Every sequence has one of {lora.adapters:,} adapters of rank {lora.lora_rank}, chosen "
        f"{how} and independently; only those that a step touches are read. They are added to "
        "linear layers of attention, of states and of dense and shared feed-forward parts; routers "
        "and routed experts have none."
    ]
    if lora.moves:
        hit, load = hits(deployment), show(load_s(deployment), "s")
        out.append(
            f"A device keeps {lora.kept:,} adapters, those used last: {hit:.0%} of the requests "
            f"are expected to find theirs. The others wait {load} more, while "
            "steps go on; a step that waits for them is not modelled."
        )
        asked = float(replace(lora, max_loras=0).touched(sequences)) if sequences else 0.0
        if asked > lora.kept:
            out.append(
                f"{sequences:,.0f} sequences ask for {asked:.1f} different adapters on average, "
                f"and {lora.kept:,} have a place: an engine holds the others back, so that "
                "throughput is less than this, and TTFT longer."
            )
    return out


def price_notes(deployment: Deployment) -> list[str]:
    """Reason why the prices of adapters are assumed; none without them, or at datasheet rates."""
    known = deployment.calibration
    if known is None or not deployment.options.lora.adapters:
        return []
    told = known.price(Op(ADAPTER, "adapter", Work(activation_bytes=1.0)), deployment.node.gpu)
    return [f"{told.assumed[0].upper()}{told.assumed[1:]}."] if told and told.assumed else []


def adapter_derivations(batch: StaticBatch) -> dict[str, Derivation]:
    """Derivations of the time that adapters take in a step, by metric; none without them."""
    out = {}
    for metric, ops in (("adapters_ttft", batch.prefill), ("adapters_tpot", batch.decode)):
        found = [entry for entry in ops.values() if entry.op.kind == ADAPTER]
        if found:
            inputs = [operator(entry, batch.deployment) for entry in found]
            formula = " + ".join(each.name for each in inputs)
            seconds = sum(each.value for each in inputs)
            phase = "prefill" if ops is batch.prefill else "decode"
            out[metric] = derived(f"adapters in a {phase} step", seconds, "s", formula, inputs)
    return out
