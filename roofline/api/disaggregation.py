"""Prefill and decode on pools of their own, and published results of single pools."""

from typing import Any

from msgspec import Struct

from roofline.api import setting
from roofline.api.parameters import PoolComparison
from roofline.api.question import question, refuse_unused
from roofline.api.setting import check_groups
from roofline.bench.end_to_end.naming import number_format
from roofline.bench.end_to_end.published_results import PublishedResult
from roofline.cost.deployment import Deployment, Options
from roofline.cost.layout import parse
from roofline.errors import InputError, RooflineError, described, prefixed
from roofline.hardware import catalog as hardware
from roofline.hardware.engine import engine_of
from roofline.hardware.machine import Gpu, Node
from roofline.model.tower import TEXT_ALONE
from roofline.records import replace
from roofline.serving.disaggregated import disaggregated
from roofline.serving.disaggregated_result import result_of
from roofline.serving.encoders import encoders
from roofline.serving.encoders import said as encoders_said
from roofline.serving.encoders import tabulated as encoders_table
from roofline.serving.ffn_pools import Ratio, attention_of, ratios
from roofline.serving.workload import Workload
from roofline.table import Result


@question(PoolComparison)
def disaggregate(asked: PoolComparison) -> Result:
    """Say what disaggregated serving costs: instances of each kind, TTFT, TPOT, transfer, price.

    Returns:
        Result: Tables ``headline``, ``pools``, ``transfer``, ``alternatives``; derivations by
            metric.
    """
    options = setting.options_asked(asked)
    network, device, box = setting.subject_of(asked)
    if asked.prefill_batch < 0:
        raise InputError(
            f"prefill batch is {asked.prefill_batch}",
            hint="give 1 prompt or more, or 0 for the default",
        )
    several = asked.decode_gpu is not None or asked.decode_node is not None
    if asked.usd_per_hour is not None and several:
        raise InputError(
            "one price for two kinds of device",
            hint="leave `usd_per_hour` out, or state the price in a YAML file of the GPU",
        )
    other, other_box = device, box
    if several:
        other, other_box = setting.machine_of(asked.decode_gpu, asked.decode_node, None)
    layouts = {"prefill": parse(asked.prefill), "decode": parse(asked.decode)}
    if asked.over == "link" and box is None and other_box is None and device.name == other.name:
        both = sum(int(layout.devices) for layout in layouts.values())
        box = other_box = hardware.default_node(device, asked.gpus or both)

    seen, text = options, replace(options, media=TEXT_ALONE)

    def instance(phase: str, on: Gpu, where: Node | None, options: Options = text) -> Deployment:
        with prefixed(f"{phase} pool"):
            return setting.make_asked_deployment(
                asked, network, on, where, layouts[phase], options=options
            )

    # Towers are where prompts are prefilled unless they have a pool of their own.
    inside = text if asked.encode else seen
    if network.towers_of(seen.media):
        refuse_unused(
            "pictures or sound, of which no prefix is known,",
            {"`prefix_hit`": asked.prefix_hit > 0},
        )
    prompt = asked.prompt + network.media_tokens(seen.media)
    workload = Workload(asked.batch, prompt, asked.output, prefix_hit=asked.prefix_hit)
    compared: list[Ratio] = []
    if asked.ffn:
        layouts["decode"], groups = attention_of(layouts["decode"])
        compared = _fed(asked, instance("decode", other, other_box), groups, workload)
        decode = compared[0].deployment
    elif asked.ffn_gpu is not None or asked.microbatches:
        raise InputError(
            "a GPU or micro-batches of a feed-forward pool that is not there",
            hint="give `ffn`, the layout of that pool",
        )
    else:
        decode = instance("decode", other, other_box, inside)
    before = instance("prefill", device, box, inside)
    check_groups(asked.routing, asked.two_batch, before, decode)
    priced = disaggregated(
        before,
        decode,
        workload,
        prefill_batch=asked.prefill_batch,
        gpus=asked.gpus,
        wires=asked.over,
        overlapped=asked.overlapped,
        utilization=asked.memory_utilization,
        ratios=compared,
    )
    result = result_of(priced)
    if not asked.encode:
        refuse_unused(
            "a pool that nothing encodes in", {"`encode_gpu`": asked.encode_gpu is not None}
        )
        return result
    layouts["encode"] = parse(asked.encode)
    encoding_gpu = (
        device if asked.encode_gpu is None else setting.machine_of(asked.encode_gpu, None, None)[0]
    )
    where = box if asked.encode_gpu is None else None
    rate = priced.split.requests_per_s(priced.overlap)
    found = encoders(instance("encode", encoding_gpu, where, seen), before, priced, rate)
    summary = (*encoders_said(found, priced), *result.metadata["summary"])
    return replace(
        result,
        tables={**result.tables, "encoders": encoders_table(found, priced)},
        metadata={**result.metadata, "summary": summary},
    )


def _fed(asked: PoolComparison, whole: Deployment, groups: int, workload: Workload) -> list[Ratio]:
    """Attention instances beside the feed-forward pool that is asked for, the best first.

    With more than one group those, else as many as have most tokens a second for each GPU. [1]
    """
    layout = parse(asked.ffn)
    node, calibration, precision = whole.node, whole.calibration, whole.precision
    if asked.ffn_gpu is not None:
        device, _ = setting.machine_of(asked.ffn_gpu, None, None)
        node = hardware.default_node(device, int(layout.devices))
        alone = setting.make_asked_deployment(
            asked, whole.architecture, device, node, options=whole.options
        )
        calibration, precision = alone.calibration, alone.precision
    room = None
    if asked.gpus is not None:
        room = asked.gpus - int(parse(asked.prefill).devices)
    with prefixed("decode pool"):
        return ratios(
            whole,
            layout,
            workload,
            groups=groups,
            microbatches=asked.microbatches,
            room=room,
            utilization=asked.memory_utilization,
            node=node,
            calibration=calibration,
            precision=precision,
            over=asked.ffn_over,
        )


class PublishedPrediction(Struct, frozen=True):
    """Prediction of a published figure, with the central 80 %."""

    value: float
    low: float
    high: float
    """In the unit of the figure, a rate of as many devices as the result counts."""
    basis: str
    """Fit of the engine, or the worst basis of a pool's step: one of `roofline.table.BASES`."""


class PublishedScore(Struct, frozen=True):
    """Prediction of a published figure, or the reason why there is none."""

    predicted: PublishedPrediction | None
    why: str = ""
    """Prediction; None with the reason where there is none."""
    rule: str = ""
    reason: str = ""
    """Name of the rule and the likeliest reason, where the figure is outside the interval."""


def score_pool(result: PublishedResult) -> PublishedScore:
    """Prediction of a published rate of prefill or decode alone.

    The other pool is of the same layout and never waits.
    """
    try:
        rate = _rate(result)
    except RooflineError as error:
        return PublishedScore(None, described(error))
    if rate is None:
        return PublishedScore(None, f"the {result.pool} pool does not fit in the devices' memory")
    measured = next(iter(result.measured.values()))
    if rate.low <= measured <= rate.high:
        return PublishedScore(rate)
    # From the strongest evidence to the weakest.
    hidden = _rate(result, overlap=1.0)
    if hidden is not None and rate.value < measured < hidden.value:
        reason = (
            "it lies between communication that nothing hides, as predicted, and communication "
            f"that is hidden in full ({hidden.value:,.0f} token/s): two batches overlap."
        )
        return PublishedScore(rate, rule="overlap", reason=reason)
    missed = rate.value / measured - 1.0
    off = f"{100 * abs(missed):.0f} % too {'high' if missed > 0 else 'low'}"
    reason = f"it is {off}; nothing that is published tells why."
    return PublishedScore(rate, rule="unexplained", reason=reason)


def _rate(result: PublishedResult, **changed: Any) -> PublishedPrediction | None:
    """Rate of the pool; None where it does not fit."""
    ran, load = result.ran, result.load
    prompts = result.pool == "prefill"
    engine = engine_of(ran["engine"], ran.get("version", "")).name
    spelled = result.layout.spelled
    asked = {
        "prefill": spelled,
        "decode": spelled,
        "batch": int(result.layout.dp) if prompts else load["batch"],
        "prefill_batch": load["batch"] if prompts else 0,
        "prompt": load["prompt"],
        "output": load["output"],
        "prefix_hit": load.get("prefix_hit", 0.0),
        "weights": number_format(ran["weights"]) if "weights" in ran else None,
        "kv": number_format(ran["kv"]) if "kv" in ran else "auto",
        "engine": engine,
    }
    found = disaggregate(ran["model"], ran["gpu"], **asked | changed)
    pool = next(row for row in found.tables["pools"].rows() if row["pool"] == result.pool)
    if not pool["fits"]:
        return None
    tokens = pool["batch"] * (load["prompt"] if prompts else 1.0)
    each = tokens * result.per / pool["gpus"]
    basis = next(row["basis"] for row in found.tables["headline"].rows())
    step, low, high = (pool[name] for name in ("step_s", "low_s", "high_s"))
    return PublishedPrediction(each / step, each / high, each / low, str(basis))
