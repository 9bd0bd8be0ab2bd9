"""Speculative decoding as tables: metrics, other drafts, other batches."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.serving.request_acceptance import mean_rounds, of_requests, tokens_by_request
from roofline.serving.rounds import Round
from roofline.serving.speculative import Speculation
from roofline.serving.static import CENTRAL
from roofline.table import Derivation, Table, table, units_of
from roofline.units import MILLION, SECONDS_PER_HOUR

ASSUMED: Final = "assumed"
"""Basis of figures that depend on a given acceptance."""


def headline(made: Speculation, derivations: Mapping[str, Derivation]) -> Table:
    """Metrics of the deployment with drafts and without them.

    Calibrated, ``low`` and ``high`` bound the central 80 % of those with drafts; else ``serial`` is
    with drafts and without overlap.
    """
    plain, work = made.plain, made.workload
    per_second = plain.deployment.node.gpu.usd_per_hour * plain.devices / SECONDS_PER_HOUR

    def figures(tokens: float, tpot: float, ttft: float) -> dict[str, float]:
        latency = ttft + tpot * (work.output - 1)
        throughput = work.batch * work.output / latency
        return {
            "tokens_per_round": tokens,
            "ttft_s": ttft,
            "tpot_s": tpot,
            "user_tok_s": 1.0 / tpot,
            "latency_s": latency,
            "throughput_tok_s": throughput,
            "throughput_tok_s_per_gpu": throughput / plain.devices,
            "usd_per_mtok": per_second / throughput * MILLION,
        }

    def drafted(one: Round, ttft: float) -> dict[str, float]:
        return {
            **figures(one.tokens, one.tpot_s, ttft),
            "draft_s": one.draft_s,
            "verify_s": one.verify_s,
            "speed_up": one.speed_up,
            "operations": made.operations[0].increase,
        }

    value = drafted(made.round, made.ttft_s())
    serial = drafted(made.serial, made.ttft_s(serial=True))
    ends = [
        drafted(one, made.ttft_s(deviations=deviations))
        for one, deviations in ((made.fast, -CENTRAL), (made.slow, CENTRAL))
    ]

    def beside(metric: str) -> dict[str, float]:
        if not made.calibrated:
            return {"serial": serial[metric]}
        if metric == "speed_up":  # of times whose errors need not go together
            found = [made.plain.tpot_s / one.tpot_s for one in (made.fast, made.slow)]
        else:
            found = [figures[metric] for figures in ends]
        return {"low": min(found), "high": max(found)}

    same = {"verify_s": plain.tpot_s, "operations": 1.0}
    without = figures(1.0, plain.tpot_s, plain.ttft_s) | same
    rows = [
        {
            "metric": metric,
            "value": value[metric],
            "without": without.get(metric),
            **beside(metric),
            "unit": unit,
            "basis": derivations[explained].basis,
            "meaning": meaning,
        }
        for metric, unit, explained, meaning in _METRICS
        if metric != "usd_per_mtok" or per_second
    ]
    return table(rows, {})


_METRICS: Final = (
    ("tokens_per_round", "token", "tokens", "expected, the target's own included"),
    ("draft_s", "s", "draft", "drafting, each round"),
    ("verify_s", "s", "verify", "the target's step, each round"),
    ("tpot_s", "s", "tpot", "between tokens, mean over the answer"),
    ("speed_up", "", "speed_up", "of TPOT; below 1 a loss"),
    ("operations", "", "operations", "arithmetic of a token, over that without drafts"),
    ("user_tok_s", "token/s", "tpot", "one user, after the first token"),
    ("ttft_s", "s", "ttft", "arrival to first token, last prompt"),
    ("latency_s", "s", "latency", "arrival to last token"),
    ("throughput_tok_s", "token/s", "latency", "output tokens, all GPUs"),
    ("throughput_tok_s_per_gpu", "token/s", "latency", "output tokens, each GPU"),
    ("usd_per_mtok", "$", "latency", "per million output tokens"),
)


def work(made: Speculation) -> Table:
    """Operations and bytes of a token, intensity of a verification, and the bound of the gain."""
    one, batch, drafted = made.operations[0], made.workload.batch, made.tree.nodes
    whole = np.array([one.draft + one.verify, one.draft_bytes + one.verify_bytes])
    step = np.array([one.step, one.step_bytes])
    token, plain = whole / one.tokens / batch, step / batch
    accepted = one.tokens - 1.0
    precision = made.target.precision
    ridge = made.target.node.gpu.ridge(precision.linear_arithmetic)
    beyond = (whole - step) / accepted / batch if accepted else (None, None)
    rows: list[tuple[str, float | None, float | None, str, str]] = [
        ("flops_per_token", token[0], plain[0], "FLOP", "an output token, drafting included"),
        ("bytes_per_token", token[1], plain[1], "B", "read and written for an output token"),
        ("extra_flops", beyond[0], None, "FLOP", "beyond a step, for each accepted draft"),
        ("extra_bytes", beyond[1], None, "B", "beyond a step, for each accepted draft"),
        (
            "intensity",
            one.verify / one.verify_bytes,
            one.step / one.step_bytes,
            "FLOP/B",
            f"of a verification and of a step; the device's ridge point is at {ridge:.0f}",
        ),
        ("refused_share", 1.0 - accepted / drafted, None, "", "of the drafted tokens"),
        (
            "gain_bound",
            made.round.bound,
            None,
            "",
            "of the speed-up, if verifying took a plain step",
        ),
        ("speed_up", made.round.speed_up, None, "", "of TPOT, as predicted"),
    ]
    return table(
        [
            {
                "metric": name,
                "value": None if value is None else float(value),
                "without": without if without is None else float(without),
                "unit": unit,
                "basis": ASSUMED,
                "meaning": meaning,
            }
            for name, value, without, unit, meaning in rows
        ],
        {},
    )


def by_request(made: Speculation) -> Table:
    """Requests that accept more and less: tokens of a verification, and TPOT."""
    rates, length, one = made.acceptance, made.tree.depth, made.round
    percentiles = (1, 10, 50, 90, 99)
    quantiles = 1.0 - np.array(percentiles) / 100.0
    firsts = of_requests(rates, length, quantiles)[0]
    tokens = tokens_by_request(rates, length, quantiles)
    rows = [
        ("mean acceptance", rates.positions[0][0], one.tokens),
        ("mean of requests", None, 1.0 / mean_rounds(rates, length)),
        *(
            (f"p{at} of TPOT", float(first), float(each))
            for at, first, each in zip(percentiles, firsts, tokens, strict=True)
        ),
    ]
    out = [
        {
            "of": name,
            "acceptance": rate,
            "expected_tokens": each,
            "tpot_s": one.round_s / each,
            "speed_up": one.step_s * each / one.round_s,
        }
        for name, rate, each in rows
    ]
    return table(out, units_of(out[0]), ASSUMED)


def drafts(made: Speculation) -> Table:
    """Other lengths, or trees, at this batch."""
    rows = [
        {
            "drafted": choice.tree.nodes,
            "depth": choice.tree.depth,
            "expected_tokens": choice.round.tokens,
            "draft_s": choice.round.draft_s,
            "verify_s": choice.round.verify_s,
            "tpot_s": choice.round.tpot_s,
            "speed_up": choice.round.speed_up,
            "gain_bound": choice.round.bound,
            "operations": operations.increase,
            "traffic": operations.traffic,
            "asked": choice.tree == made.tree,
            "best": choice is made.best,
        }
        for choice, operations in zip(made.choices, made.operations[1:], strict=True)
    ]
    return table(rows, units_of(rows[0]), ASSUMED)


def batches(made: Speculation) -> Table:
    """Other batches: the same draft, and the one that is best there."""
    rows = [
        {
            "batch": at.batch,
            "tpot_without_s": at.round.step_s,
            "tpot_s": at.round.tpot_s,
            "speed_up": at.round.speed_up,
            "gain_bound": at.round.bound,
            "decode_tok_s": at.batch / at.round.tpot_s,
            "best_drafted": at.best.tree.nodes,
            "best_speed_up": at.best.round.speed_up,
            "fits": at.fits,
        }
        for at in made.batches
    ]
    return table(rows, units_of(rows[0]), ASSUMED)
