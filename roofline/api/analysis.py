"""Costs of a deployment and their derivation, and the sequences that it holds."""

from roofline.api import setting
from roofline.api.parameters import Analysis, Paging
from roofline.api.question import question, refuse_unused, shared
from roofline.api.setting import check_groups, in_characters
from roofline.bench.engine_profiles import profile_note
from roofline.cost.deployment import Offload, Options
from roofline.cost.layout import DEGREES
from roofline.cost.sampling import LIKELIEST
from roofline.errors import UnknownNameError, not_one_of
from roofline.model import precision
from roofline.records import replace
from roofline.serving.result import result_of
from roofline.serving.room import enough
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.table import Derivation, Result
from roofline.units import parse


@question(Analysis)
def analyze(asked: Analysis) -> Result:
    """Say what a static batch costs: memory, TTFT, TPOT, throughput, price, and what binds it.

    Returns:
        Result: Tables ``headline``, ``ops``, ``memory``, ``capacity``, ``what_if``,
            ``batch_curve``, ``roofs``, ``assumptions``; derivations by metric. Closed forms and
            denoising have ``headline`` only.
    """
    options = setting.options_asked(asked)
    automatic = asked.offload_weights == "auto"
    offload = Offload(
        _share(asked.offload_weights), asked.offload_kv, asked.offload_to, asked.prefetch
    )
    network, device, box = setting.subject_of(asked)
    if asked.sram or not asked.split_kv:
        inert = not any(block.mixer is not None and block.mixer.sees_all for block in network.kinds)
        refuse_unused(
            "`sram`" if asked.sram else "`split_kv=False`",
            {
                "`attention=naive`": asked.attention == "naive",
                "measured kernels (say `calibration=none`)": asked.calibration != "none",
                f"{network.name}, no layer of which attends to all keys": inert,
            },
        )
        options = replace(options, sram_bytes=parse(asked.sram, "B") if asked.sram else 0.0)
    workload = Workload(**shared(asked, Workload))
    degrees = setting.degrees_of(asked)
    facility = setting.facility_of(asked)
    setting.check_powered(facility, device)
    moved = offload.any or automatic
    several = asked.samples > 1 or asked.beams > 1
    if network.is_encoder:
        workload = replace(workload, output=1)
    workload = replace(workload, prompt=workload.prompt + network.media_tokens(options.media))

    refuse_unused(
        "a layout that is not auto",
        {"`objective`": asked.objective != "latency" and not degrees.automatic},
    )
    refuse_unused(
        "a deployment that keeps nothing on the host",
        {
            "`offload_to`": asked.offload_to != "cpu" and not moved,
            "`prefetch=False`": not (asked.prefetch or moved),
        },
    )
    reason = ""
    if degrees.automatic:
        from roofline.study.choice import choose

        refuse_unused(
            "`layout=auto`",
            {
                "`convention=textbook`": asked.convention == "textbook",
                "an offload": moved,
                "`denoising_steps`": asked.denoising_steps != 0,
                "`samples` or `beams`": several,
            }
            | {f"`{name}`": getattr(degrees, name) is not None for name in DEGREES}
            | {"`stages`": bool(asked.stages), "`microbatches`": asked.microbatches != 0},
        )
        many = asked.gpus or 1
        base = setting.make_asked_deployment(
            asked, network, device, box or setting.roomiest(device, many), options=options
        )
        base = setting.profiled(base, asked.profile)
        chosen = choose(base, workload, many, asked.objective, asked.memory_utilization)
        arranged, replicas, reason = chosen.layout, chosen.replicas, chosen.reason
    else:
        arranged, replicas = setting.layout_of(asked.gpus, degrees)
    refuse_unused(
        f"a layout of {arranged}",
        {
            "`sequence_parallel`": arranged.sequence_parallel and arranged.tp == 1,
            "`ring_attention`": asked.ring_attention and arranged.cp == 1,
        },
    )
    if several:
        refuse_unused(
            "`samples` or `beams`",
            {
                "a pipeline (`pp`)": arranged.pp > 1,
                "`kv_cache=False`": not asked.kv_cache,
                "an encoder": network.is_encoder,
            },
        )
    refuse_unused("`adapters`", {"`samples` or `beams`": several and asked.adapters > 0})
    encoded = bool(network.towers_of(options.media) or network.encoder)
    refuse_unused(
        "what an encoder reads",
        {
            "`kv_cache=False`": encoded and not asked.kv_cache,
            "`prefix_hit`": encoded and asked.prefix_hit != 0,
        },
    )
    unpriced = {
        "`characters_per_token`": asked.characters_per_token != 0,
        "what an encoder reads": encoded,
        "`adapters`": asked.adapters > 0,
        "`samples` or `beams`": several,
        "`temperature`, `top_k` or `top_p`": options.sampling != LIKELIEST and not several,
        "`prefill_batch`": asked.prefill_batch != 0,
        "`prefix_hit`": asked.prefix_hit != 0,
        "replicas (`gpus` beyond those of a replica)": replicas > 1,
        "`usd_per_hour`": asked.usd_per_hour is not None,
        "`pue`, `usd_per_kwh` or `carbon`": facility is not None,
        "a pipeline (`pp`)": arranged.pp > 1,
        "`offload_weights` or `offload_kv`": moved,
    }
    if asked.convention == "textbook":
        refuse_unused(
            "`convention=textbook`",
            unpriced
            | {
                "`overlap`": asked.overlap != 0,
                "`sequence_parallel`": arranged.sequence_parallel,
                "degrees beside `tp`": arranged.devices != arranged.tp or bool(arranged.ep != 1),
                "`kv_cache=False`": not asked.kv_cache,
                "`attention=naive`": asked.attention == "naive",
                "`fusion`": asked.fusion != "engine",
                "`split_kv=False`": not asked.split_kv,
                "`mask=square`": asked.mask == "square",
                "`memory_utilization`": asked.memory_utilization is not None,
                "`cuda_graphs=False`": not asked.cuda_graphs,
                "`denoising_steps`": asked.denoising_steps != 0,
                "`profile`": bool(asked.profile),
            },
        )
        from roofline.serving import lecture

        held = precision.named(asked.weights or setting.default_format(network))
        cache = held if asked.kv == "auto" else precision.named(asked.kv)
        return lecture.analyze(network, device, workload, held, cache, int(arranged.tp))
    deployment = setting.make_asked_deployment(
        asked, network, device, box, arranged, options=options, offload=offload
    )
    if not degrees.automatic:
        check_groups(asked.routing, asked.two_batch, deployment)
    if asked.profile:
        refuse_unused("`denoising_steps`", {"`profile`": asked.denoising_steps != 0})
        deployment = setting.profiled(deployment, asked.profile)
    if not asked.denoising_steps:
        refuse_unused("decoding token by token", {"`block`": asked.block != 0})
    if asked.denoising_steps:
        from roofline.serving import diffusion

        refuse_unused("`denoising_steps`", unpriced)
        denoised = diffusion.denoise(
            deployment,
            batch=asked.batch,
            prompt=asked.prompt,
            output=asked.output,
            steps=asked.denoising_steps,
            block=asked.block or None,
            cached=asked.kv_cache and asked.block > 0,
            utilization=asked.memory_utilization,
        )
        return diffusion.result_of(denoised)
    if automatic:
        deployment = enough(deployment, workload, asked.memory_utilization)
    batch_priced = static_batch(deployment, workload, utilization=asked.memory_utilization)
    remarks = [tower.said(options.media) for tower in network.towers_of(options.media)]
    if asked.profile:
        middle = asked.prompt + asked.output / 2.0
        remarks.append(profile_note(deployment, float(batch_priced.sequences), middle))
    result = result_of(batch_priced, replicas, reason, facility, remarks)
    result = in_characters(result, "headline", asked.characters_per_token)
    if not asked.profile:
        return result
    return replace(result, metadata={**result.metadata, "profile": str(asked.profile)})


def _share(asked: float | str) -> float:
    """Share of the weights that is kept outside; 0 where it is still to be found."""
    if asked == "auto":
        return 0.0
    try:
        return float(asked)
    except ValueError:
        words = ("auto", "a number from 0 to 1")
        raise not_one_of("offloaded share of weights", asked, words) from None


def explain(result: Result, metric: str) -> Derivation:
    """Derivation of a metric of a result: formula, numbers put in, source of each.

    Args:
        result: Answer to a question.
        metric: ``"tpot"``, ``"kv"``: a key of its derivations.

    Returns:
        Derivation: A tree that ends in facts with sources.

    Raises:
        UnknownNameError: The result has no derivation of that name.
    """
    if metric in result.derivations:
        return result.derivations[metric]
    raise UnknownNameError(
        f"nothing called {metric!r} to explain", hint=f"metrics: {', '.join(result.derivations)}"
    )


@question(Paging)
def paging(asked: Paging) -> Result:
    """Say how many sequences fit with caches reserved whole, in pages, and in shared pages.

    Returns:
        Result: Tables ``headline`` and ``schemes``; derivations by scheme.
    """
    from roofline.serving.paged import paged
    from roofline.serving.paged_result import result_of as paged_result

    network = setting.network_of(asked.model)
    setting.check_share(asked.memory_utilization)
    setting.check_gpus(asked.gpus)
    device, box = setting.machine_of(asked.gpu, asked.node, None)
    layout = setting.one_replica(asked.gpus, asked.layout)
    options = Options(cuda_graphs=asked.cuda_graphs)
    return paged_result(
        paged(
            setting.make_asked_deployment(asked, network, device, box, layout, options=options),
            Workload(**(shared(asked, Workload) | {"samples": 1})),
            samples=asked.samples,
            beams=asked.beams,
            page=asked.page,
            reserved=asked.reserved,
            spread=asked.length_spread,
            utilization=asked.memory_utilization,
        )
    )
