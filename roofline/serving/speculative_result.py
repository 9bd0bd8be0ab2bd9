"""Priced speculative decoding as a result: sentences, tables, derivations, notes."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.measured import GROUNDS
from roofline.cost.moe import touched
from roofline.serving.acceptance import mean_rounds, of_requests, published, tokens_by_request
from roofline.serving.advice import listed, shares
from roofline.serving.draft_schedule import SOURCE, DraftSchedule, schedule_table
from roofline.serving.drafts import MTP, rolls_back
from roofline.serving.explain.speculative import explain_all
from roofline.serving.price import usd_per_mtok
from roofline.serving.room import memory_table
from roofline.serving.rounds import Round
from roofline.serving.speculative import Speculation
from roofline.serving.static import CENTRAL
from roofline.table import Derivation, Result, Table, table, units_of
from roofline.units import counted, show, show_binary, significant

EXACT: Final = {
    "model": "",
    "mtp": " The layer is used again for each further token; reports are of the first.",
    "eagle": "",
    "medusa": " Typical acceptance, which Medusa offers too, accepts more and is not lossless: "
    "published rates may be with it.",
    "ngram": " What follows an n-gram is accepted where the text repeats itself: summaries, edits. "
    "Rounds in which none is found count in the acceptance of the first token; they are priced as "
    "if something had been drafted.",
}


UNEVEN: Final = (
    "Requests differ: the acceptance of each is drawn from a Beta distribution of the mean and "
    "standard deviation that are given, and stays that of all its rounds. Figures above are of the "
    "mean acceptance; those by request are of long answers."
)


def result_of(made: Speculation, scheduled: DraftSchedule | None = None) -> Result:
    """Tables, derivations, notes and inputs of speculative decoding, and its lengths by batch."""
    target, work, derivations = made.target, made.workload, explain_all(made)
    drafting = made.draft.deployment
    return Result(
        kind="speculate",
        tables={
            "headline": headline(made, derivations),
            **({} if scheduled is None else {"schedule": schedule_table(scheduled)}),
            **({"by_request": request_table(made)} if made.acceptance.spread else {}),
            "round_work": work_table(made),
            "drafts": draft_table(made),
            "batches": batch_table(made),
            "memory": memory_table(made.memory, (made.draft_weights, made.draft_kv)),
            "published": published(),
        },
        derivations=derivations,
        notes=tuple(dict.fromkeys((*notes(made), *_scheduling(scheduled)))),
        metadata={
            **target.metadata,
            "draft": made.draft.title,
            "draft_kind": made.draft.kind,
            "draft_weights": "" if drafting is None else drafting.weights_name,
            "draft_layout": "" if drafting is None else drafting.layout.spelled,
            "drafted": made.tree.nodes,
            "depth": made.tree.depth,
            "tree": str(made.tree),
            "acceptance": str(made.acceptance),
            "acceptance_spread": made.acceptance.spread,
            "lossless": True,
            "best_drafted": made.best.tree.nodes,
            "turns": [{"batch": turn.batch, "gains": turn.gains} for turn in made.turns],
            "largest_batch": made.most,
            "least_acceptance": made.least_acceptance,
            "node": target.node.name,
            "batch": work.batch,
            "prompt": work.prompt,
            "output": work.output,
            "prefix_hit": work.prefix_hit,
            "convention": "engine",
            "basis": "assumed",
            "fits": made.free >= 0,
            "summary": (*sentences(made), *_by_load(made, scheduled)),
        },
    )


def sentences(made: Speculation) -> tuple[str, ...]:
    """Summary: the gain, its basis, and the batch at which it ends."""
    every = (_gain, _requests, _binds, _extra, _best, _turn, _rates, _room)
    return tuple(sentence for tell in every if (sentence := tell(made)))


def _by_load(made: Speculation, scheduled: DraftSchedule | None) -> tuple[str, ...]:
    if scheduled is None:
        return ()
    batch, turn = made.workload.batch, scheduled.loses_from
    most = len(scheduled.lengths)
    ends = f"none from a batch of {turn:,} on" if turn else f"and it pays up to {most:,}"
    length = int(scheduled.lengths[batch - 1])
    best = counted(length, "token") if length else "no draft"
    return (f"By load: {best} at a batch of {batch}, {ends}.",)


def _scheduling(scheduled: DraftSchedule | None) -> tuple[str, ...]:
    if scheduled is None:
        return ()
    return (
        "Draft length by load: the one with most expected tokens a second at each batch, or none; "
        f"it changes where that gains 1 %. Source: {SOURCE}.",
    )


def _requests(made: Speculation) -> str:
    rates, length, one = made.acceptance, made.tree.depth, made.round
    if not rates.spread:
        return ""
    slow = float(tokens_by_request(rates, length, np.array([0.01]))[0])
    mean = one.round_s * mean_rounds(rates, length)
    return (
        f"Requests differ in acceptance by {rates.spread:.2g} (standard deviation, assumed): their "
        f"mean TPOT is {show(mean, 's')}, {one.step_s / mean:.2f} × as fast, and at p99 "
        f"{show(one.round_s / slow, 's')}."
    )


def _gain(made: Speculation) -> str:
    one, plain = made.round, show(made.plain.tpot_s, "s")
    verdict = (
        f"{one.speed_up:.2f} × as fast" if one.speed_up >= 1 else f"a loss (× {one.speed_up:.2f})"
    )
    return (
        f"A verification yields {significant(one.tokens)} tokens of {1 + made.tree.nodes} at an "
        f"acceptance of {made.acceptance}: TPOT {show(one.tpot_s, 's')} against {plain} without "
        f"drafts, {verdict}."
    )


def _binds(made: Speculation) -> str:
    one = made.round
    drafting = f"Drafting takes {one.draft_s / one.round_s:.0%} of a round"
    if not made.passes:
        drafting = "Drafting costs the device nothing"
    return (
        f"{drafting}; verification takes {one.verify_s / one.step_s:.2f} × a decode step, bound by "
        f"{listed(shares(made.verify))}."
    )


def _extra(made: Speculation) -> str:
    return (
        f"Each token takes {made.operations[0].increase:.2f} × the arithmetic that it takes "
        "without drafts: what is refused, and what drafts."
    )


def _best(made: Speculation) -> str:
    best = made.best
    if best.tree == made.tree:
        return f"Nothing else compared does better at a batch of {made.workload.batch}."
    return (
        f"{str(best.tree).capitalize()} would do best at a batch of {made.workload.batch}: "
        f"{best.round.speed_up:.2f} × as fast."
    )


def _turn(made: Speculation) -> str:
    batch, gains = made.workload.batch, made.round.speed_up >= 1
    ahead = next((turn for turn in made.turns if turn.batch > batch), None)
    behind = next((turn for turn in reversed(made.turns) if turn.batch <= batch), None)
    if ahead is not None:
        what = "The gain turns into a loss" if gains else "The loss turns into a gain"
        beyond = f", beyond the {made.most:,} that fit" if 0 < made.most < ahead.batch else ""
        return f"{what} at a batch of {ahead.batch:,}{beyond}."
    if behind is not None:
        return f"It is a {'gain' if gains else 'loss'} from a batch of {behind.batch:,} on."
    last = made.batches[-1].batch
    return (
        f"It is a {'gain' if gains else 'loss'} at every batch up to {last:,}, the largest priced."
    )


def _rates(made: Speculation) -> str:
    if not made.tree.is_chain or made.acceptance.deepest is not None:
        return ""
    if made.least_acceptance is None:
        return "No acceptance makes it a gain at this batch."
    return f"At this batch it gains from an acceptance of {made.least_acceptance:.2f} on."


def _room(made: Speculation) -> str:
    where = "the device" if made.plain.devices == 1 else f"each of {made.plain.devices} devices"
    extra, spare = made.draft_weights + made.draft_kv, show_binary(abs(made.free))
    taken = f"; drafting takes {show_binary(extra)}" if extra else ""
    if made.free >= 0:
        return f"Fits on {where} with {spare} to spare, up to {made.most:,} sequences{taken}."
    fewer = f" A batch of {made.most:,} fits." if made.most else ""
    return f"Does not fit: {spare} too much on {where}{taken}.{fewer}"


def notes(made: Speculation) -> tuple[str, ...]:
    """Conventions, omissions and choices behind the figures."""
    target, draft = made.target, made.draft
    alike = (
        "Every drafted token is taken to be accepted alike, whatever its position: measured rates "
        "fall with it, so long drafts are flattered."
    )
    out = [
        "Acceptance is given, not predicted: it depends on the text, on what drafts and on the "
        "sampling. Published rates are of other text.",
        *([alike] if made.acceptance.deepest is None else []),
        *([UNEVEN] if made.acceptance.spread else []),
        "Lossless: with the target's own choice where a draft is refused (greedy, or rejection "
        "sampling) the output has the target's distribution." + EXACT[draft.kind],
        "All sequences of a batch draft as many tokens in a round and go on by different numbers; "
        "those that end early are replaced by others of the same lengths.",
        f"Times are {GROUNDS[target.basis]}, with the central 80 % of those with drafts. Several "
        "new tokens on a long context were measured rarely: the verification is the wider for it. "
        "A round is one step of the engine: what its software adds is in the verification, once, "
        "and drafting runs inside the same step."
        if made.calibrated
        else "Times are the datasheet roofline: the least the hardware allows, not a forecast; "
        "there is no time of an engine in them.",
        "TTFT, latency and throughput are those of a static batch, all of whose prompts arrive at "
        "once: with drafts there is no closed form of a server that is kept full.",
    ]
    if draft.deployment is not None:
        out.append(
            "What drafts runs on the target's devices, before the verification; drafting for the "
            "next round meanwhile is not modelled."
        )
    out += _mixture(made)
    if rolls_back(target.architecture):
        out.append(
            "Layers that keep a state have to go back to that of the last accepted token; keeping "
            "or computing it again is left out."
        )
    other = draft.deployment
    if draft.kind == "model" and other is not None:
        ours, theirs = target.architecture.vocab, other.architecture.vocab
        if ours != theirs:
            out.append(
                f"The draft has {theirs:,} tokens, the target {ours:,}: tokens are compared one by "
                "one, so both need the same tokenizer."
            )
        out += other.precision.notes
    counted = (note for note in target.architecture.notes if draft.kind != "mtp" or MTP not in note)
    return (*out, *target.precision.notes, *counted)


def _mixture(made: Speculation) -> list[str]:
    """Experts that a verification touches beside those of a decode step."""
    target = made.target
    mixtures = target.architecture.mixtures
    if not mixtures:
        return []
    part, batch = mixtures[0], float(made.workload.batch)
    met = [
        float(touched(tokens, part.experts, part.active, target.options.routing))
        for tokens in (batch, batch * (1 + made.tree.nodes))
    ]
    return [
        f"A decode step touches {met[0]:.3g} of {part.experts} experts, a verification "
        f"{met[1]:.3g}: their weights are read."
    ]


ASSUMED: Final = "assumed"
"""Basis of figures that depend on a given acceptance."""


def headline(made: Speculation, derivations: Mapping[str, Derivation]) -> Table:
    """Metrics of the deployment with drafts and without them.

    Calibrated, ``low`` and ``high`` bound the central 80 % of those with drafts; else ``serial`` is
    with drafts and without overlap.
    """
    plain, work = made.plain, made.workload
    hourly = plain.deployment.node.gpu.usd_per_hour * plain.devices

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
            "usd_per_mtok": usd_per_mtok(hourly, 1.0, throughput),
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
        if metric != "usd_per_mtok" or hourly
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


def work_table(made: Speculation) -> Table:
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


def request_table(made: Speculation) -> Table:
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


def draft_table(made: Speculation) -> Table:
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


def batch_table(made: Speculation) -> Table:
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
