"""Deployments side by side: variants of one, and its layouts."""

from typing import Final

from roofline.api import setting
from roofline.api.parameters import Comparison, LayoutComparison
from roofline.api.question import question, refuse_unused, shared
from roofline.bench.calibrations import calibration_of
from roofline.cost.sampling import LIKELIEST
from roofline.errors import InputError
from roofline.hardware.engine import engine as engine_named
from roofline.model.changes.settings import setup_of
from roofline.serving.workload import Workload
from roofline.study import compare as variants
from roofline.study.choice import layouts as layouts_result
from roofline.study.figures import Conditions
from roofline.table import Result
from roofline.version import __version__

MOST_TRAINED: Final = 2**63


@question(Comparison)
def compare(asked: Comparison) -> Result:
    """Price variants of a deployment beside it, and say what each change moved and why.

    Accuracy is out of scope.

    Returns:
        Result: Tables ``variants`` (the base first), ``factors``, ``why``, ``training``.
    """
    trained = setting.tokens_of("training_tokens", asked.training_tokens)
    if trained is not None and not 1 <= trained <= MOST_TRAINED:
        raise InputError(f"training tokens are {trained:g}", hint="give their number, like 94e9")
    options = setting.options_asked(asked)
    textbook = asked.convention == "textbook"
    refuse_unused(
        "`convention=textbook`",
        {
            "`temperature`, `top_k` or `top_p`": textbook and options.sampling != LIKELIEST,
            "`fusion`": textbook and asked.fusion != "engine",
        },
    )
    network = setting.network_of(asked.model)
    device, _ = setting.machine_of(asked.gpu, None, asked.usd_per_hour)
    layout, _ = setting.layout_of(asked.gpus, setting.Degrees(tp=asked.tp))
    setting.check_share(asked.memory_utilization)
    return variants.compare(
        setup_of(
            network,
            device,
            weights=asked.weights or "",
            kv=asked.kv,
            tp=int(layout.tp),
            batch=asked.batch,
        ),
        asked.changes,
        Conditions(
            workload=Workload(**shared(asked, Workload)),
            engine=engine_named(asked.engine),
            options=options,
            gpus=asked.gpus,
            utilization=asked.memory_utilization,
            convention=asked.convention,
            calibrate=lambda gpu: calibration_of(asked.calibration, gpu, asked.engine),
            rank=asked.rank,
        ),
        training_tokens=trained,
        version=__version__,
    )


@question(LayoutComparison)
def layouts(asked: LayoutComparison) -> Result:
    """Price every layout of a network on a number of GPUs, best first.

    Returns:
        Result: Tables ``layouts`` (those that fit first, best first) and ``best`` (one for each
            objective, with the reason).
    """
    network, device, box = setting.subject_of(asked)
    base = setting.make_asked_deployment(
        asked, network, device, box or setting.roomiest(device, asked.gpus)
    )
    work = shared(asked, Workload)
    if network.is_encoder:
        work["output"] = 1
    return layouts_result(
        base, Workload(**work), asked.gpus, asked.objective, asked.memory_utilization, asked.rank
    )
