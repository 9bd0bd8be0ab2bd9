"""Variants of one deployment side by side, each against the base, and why they differ."""

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any, Final

from msgspec import Struct

from roofline.cost.measured import GROUNDS
from roofline.cost.textbook.training import (
    CALIBRATION_TOKENS,
    calibration_flops,
    distillation_flops,
    training_flops,
)
from roofline.errors import InputError, prefixed
from roofline.hardware.machine import Gpu
from roofline.model.changes.settings import CHANGES, Setup, explained, parse
from roofline.records import replace
from roofline.serving.price import usd_per_mtok
from roofline.serving.static import CENTRAL
from roofline.study.figures import Conditions, Figures, figures, sentence
from roofline.table import Result, Table, table

ACCURACY: Final = (
    "Accuracy is out of scope: nothing here says whether a variant answers as well as the base."
)
TIMES: Final = (
    "Times are the datasheet roofline with perfect overlap: the least the hardware allows, not a "
    "forecast; variants are compared at the same rates."
)
MEASURED: Final = (
    "Times of operators are {} of the device, or of the one most like it; ± "
    "is the central 80 %. Variants are off together, so factors are surer than what they are of; "
    "`roofline analyze` gives the grounds of each."
)
UNLIKE: Final = (
    "No device like {} was measured: all variants are priced at published rates, to be comparable."
)
_FACTORS: Final = {"ttft_s": "s", "tpot_s": "s", "throughput_tok_s": "token/s", "usd_per_mtok": "$"}
_STEADY: Final = {
    "ttft_idle_s": "s",
    "tpot_steady_s": "s",
    "steady_tok_s": "token/s",
    "steady_usd_per_mtok": "$",
}
"""The same of one prompt on an idle server, and of a batch that is kept full."""
LASTING: Final = (
    "TTFT is of one prompt on an idle server; TPOT, throughput and price are of a batch that is "
    "kept full, where every answer is followed by the next prompt. `rank=static` shows the batch "
    "whose prompts all arrive at once."
)
STATIC: Final = "All prompts of a batch arrive at once, and are decoded together to the end."
_SIZES: Final = {
    "parameters": "parameter",
    "active_parameters": "parameter",
    "weight_bytes": "B",
    "kv_bytes_per_token": "B",
    "kv_bytes": "B",
    "memory_bytes": "B",
}
UNITS: Final = {
    **_SIZES,
    **_FACTORS,
    **_STEADY,
    **{
        f"{name}_{end}": unit
        for name, unit in {**_FACTORS, **_STEADY}.items()
        for end in ("low", "high")
    },
}


class Variant(Struct, frozen=True):
    """One column of the comparison."""

    label: str
    """Text as asked for; the name of the network for the base."""
    changes: tuple[tuple[str, str], ...]
    """Names and values; empty for the base."""
    setup: Setup
    figures: Figures
    """Network on its devices, and its figures."""
    reasons: tuple[str, ...] = ()
    """Effect of each change, in a few words."""


def compare(
    base: Setup,
    changes: Sequence[str],
    conditions: Conditions,
    *,
    training_tokens: float | None = None,
    version: str = "",
) -> Result:
    """Price a base and variants of it.

    Args:
        base: What runs on what.
        changes: One text for each variant: ``"gqa=8"``, ``"window=1024,weights=int4"``.
        conditions: What all have in common.
        training_tokens: Tokens that variants which need training are trained on; None to leave that
            out. [token]
        version: Of the program, for the record.

    Returns:
        Result: Tables ``variants``, ``factors``, ``why``, and ``training`` if tokens are given.

    Raises:
        RooflineError: A change is not known or has no meaning; the message names the variant.
    """
    if not changes:
        raise InputError(
            "nothing to compare with", hint=f"give `changes` CHANGE; changes: {', '.join(CHANGES)}"
        )
    every = _priced(base, changes, conditions)
    devices = {each.setup.gpu.name: each.setup.gpu for each in every}
    known = {gpu.title: conditions.calibrate(gpu) for gpu in devices.values()}
    bare = [title for title, each in known.items() if each is None]
    grounds = dict.fromkeys(GROUNDS[each.basis] for each in known.values() if each is not None)
    notes: tuple[str, ...] = ()
    if conditions.convention == "engine" and 0 < len(bare) < len(devices):
        every = _priced(base, changes, replace(conditions, calibrate=lambda _: None))
        notes = (UNLIKE.format(" and ".join(bare)),)
    first = every[0]
    calibrated = conditions.convention == "engine" and not bare
    lasting = all(variant.figures.steady for variant in every)
    if not lasting:
        every = [replace(v, figures=replace(v.figures, steady=None)) for v in every]
        first = every[0]
    basis = "calibrated" if calibrated else "datasheet"
    rows = [_row(variant) for variant in every]
    out: dict[str, Table] = {
        "variants": table(rows, UNITS, "interpolated" if calibrated else "datasheet"),
        "factors": table([_factors(rows[0], row) for row in rows[1:]], {}),
        "why": table(
            [
                {
                    "variant": v.label,
                    "why": sentence(first.figures, v.figures, v.reasons, static=not lasting),
                }
                for v in every[1:]
            ],
            {},
        ),
    }
    if training_tokens is not None:
        ways = [row for v in every[1:] for row in _training(first, v, training_tokens)]
        out["training"] = table(ways, {"tokens": "token", "flops": "FLOP"})
    work = conditions.workload
    return Result(
        kind="compare",
        tables=out,
        notes=(
            ACCURACY,
            MEASURED.format(" and ".join(grounds)) if calibrated else TIMES,
            *([LASTING if lasting else STATIC] if conditions.convention == "engine" else []),
            *notes,
            *_notes(every),
        ),
        metadata={
            "version": version,
            "model": base.network.name,
            "gpu": base.gpu.name,
            "gpu_title": base.gpu.title,
            "gpus": first.figures.gpus,
            "tp": base.tp,
            "engine": conditions.engine.name,
            "weights": base.network.mix or base.network.weight_format,
            "kv": base.kv,
            "batch": base.batch,
            "prefill_batch": work.prefill_batch,
            "prompt": work.prompt,
            "output": work.output,
            "prefix_hit": work.prefix_hit,
            "kv_cache": work.kv_cache,
            "convention": conditions.convention,
            "basis": basis,
            "fits": any(variant.figures.fits for variant in every),
            "rank": "steady" if lasting else "static",
            "accuracy": "out of scope",
        },
    )


def _priced(base: Setup, changes: Sequence[str], conditions: Conditions) -> list[Variant]:
    """The base and its variants."""
    first = Variant(base.network.name, (), base, figures(base, conditions))
    return [first, *(_variant(first, text, conditions) for text in changes)]


def _variant(base: Variant, text: str, conditions: Conditions) -> Variant:
    label = text.strip()
    shown = label if len(label) <= 60 else label[:57] + "..."
    with prefixed(f"`changes` {shown}"):
        changes = parse(text)
        unseen = [name for name, _ in changes if not CHANGES[name].textbook]
        if conditions.convention == "textbook" and unseen:
            raise InputError(
                f"the textbook forms do not see {' and '.join(unseen)}",
                hint="use `convention=engine`",
            )
        setup, reasons = explained(base.setup, changes)
        return Variant(label, changes, setup, figures(setup, conditions), reasons)


def _ends(figures: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Ends of the central 80 % of figures with their log standard deviations."""
    out: dict[str, float] = {}
    for name, (value, log_sd) in figures.items():
        wide = exp(CENTRAL * log_sd)
        out |= {f"{name}_low": value / wide, f"{name}_high": value * wide}
    return out


def _lasting(f: Figures, gpu: Gpu, tp: int) -> dict[str, float]:
    """An idle server, and one that is kept full, with the central 80 %; nothing where unknown."""
    if f.steady is None:
        return {}
    each = f.steady
    rate = each.output_tok_s * f.gpus / tp
    out = {
        "ttft_idle_s": (each.ttft_idle_s, f.ttft_log_sd),
        "tpot_steady_s": (each.tpot_s, each.tpot_log_sd),
        "steady_tok_s": (rate, each.rate_log_sd),
        "steady_usd_per_mtok": (
            usd_per_mtok(gpu.usd_per_hour * f.gpus, 1.0, rate),
            each.rate_log_sd,
        ),
    }
    found = {name: value for name, (value, _) in out.items()}
    return found | (_ends(out) if f.latency_log_sd else {})


def _row(variant: Variant) -> dict[str, Any]:
    f = variant.figures
    spreads = (f.ttft_log_sd, f.tpot_log_sd, f.latency_log_sd, f.latency_log_sd)
    batch = {name: (getattr(f, name), sd) for name, sd in zip(_FACTORS, spreads, strict=True)}
    row = {
        "variant": variant.label,
        **{name: getattr(f, name) for name in (*_SIZES, "largest_batch", *_FACTORS)},
        **(_ends(batch) if f.latency_log_sd else {}),
        **_lasting(f, variant.setup.gpu, variant.setup.tp),
        "fits": f.fits,
        "gpus": f.gpus,
        "gpu": variant.setup.gpu.name,
        "batch": variant.setup.batch,
    }
    priced = variant.setup.gpu.usd_per_hour > 0
    return row if priced else row | {name: None for name in row if "usd_per_mtok" in name}


def _factors(base: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """New over old; 1 where there is nothing to divide by, None where one is not known."""
    factors: dict[str, Any] = {"variant": row["variant"]}
    for name in (*_FACTORS, *_STEADY):
        if name in base and name in row:
            old, new = base[name], row[name]
            factors[name] = None if None in (old, new) else new / old if old else 1.0
    return factors


def _training(base: Variant, variant: Variant, tokens: float) -> list[dict[str, Any]]:
    """Arithmetic that making the variant takes, by closed form."""
    kinds = {CHANGES[name].training for name, _ in variant.changes} - {""}
    student, teacher = variant.figures.active_parameters, base.figures.active_parameters
    trained = training_flops(student, tokens)
    ways = []
    if "distil" in kinds:
        flops = distillation_flops(student, teacher, tokens)
        ways.append(("distillation from the base", "6·N·D + 2·N(base)·D", tokens, flops))
    elif "retrain" in kinds:
        ways.append(("training on", "6·N·D", tokens, trained))
    for kind, once, again in (
        ("quantise", "post-training quantisation", "quantisation-aware training"),
        ("zeros", "one-shot pruning", "training with the zeros kept"),
    ):
        if kind in kinds:
            seen = CALIBRATION_TOKENS
            ways.append((once, "2·N·D", seen, calibration_flops(student, seen)))
            ways.append((again, "6·N·D", tokens, trained))
    names = ("variant", "method", "formula", "tokens", "flops")
    return [
        dict(zip(names, (variant.label, *way, float(flops)), strict=True)) for *way, flops in ways
    ]


def _notes(every: Sequence[Variant]) -> list[str]:
    """Notes of the base, then those that only variants have, with their names."""
    base = every[0].figures.notes
    others = [
        f"{v.label}: {note}" for v in every[1:] for note in v.figures.notes if note not in base
    ]
    return list(dict.fromkeys([*base, *others]))
