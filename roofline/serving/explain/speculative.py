"""Derivations of the figures of speculative decoding."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from roofline.serving.explain import times
from roofline.serving.explain.memory import memory as in_use
from roofline.serving.explain.operators import step
from roofline.serving.explain.parts import given, worst
from roofline.serving.rounds import verifying
from roofline.serving.speculative import Speculation
from roofline.table import Derivation
from roofline.units import show, show_binary, significant

LEVIATHAN: Final = "Leviathan et al. 2023 (arXiv 2211.17192)"
TREES: Final = "Medusa, Cai et al. 2024 (arXiv 2401.10774), section 2.3.3"


def tokens(made: Speculation) -> Derivation:
    """Expected tokens of a verification."""
    tree = made.tree
    reached = [level.reached for level in tree.levels]
    rates = Derivation(
        "acceptance",
        made.acceptance.positions[0][0],
        "",
        source="given",
        basis="assumed",
        note=f"written {made.acceptance}",
    )
    alike = tree.is_chain and made.acceptance.deepest is None
    rate = made.acceptance.positions[0][0]
    closed = alike and rate < 1
    return Derivation(
        "tokens of a verification",
        tree.tokens,
        "token",
        formula="(1 − α^(γ + 1)) / (1 − α)"
        if closed
        else "1 + sum over positions of the probability that the draft is accepted up to there",
        substituted=f"(1 − {rate:g}^({tree.depth} + 1)) / (1 − {rate:g})"
        if closed
        else " + ".join(["1", *(f"{value:.6g}" for value in reached)]),
        inputs=(rates, given("drafted", tree.nodes, "token")),
        source=f"{LEVIATHAN}, equation 1" if tree.is_chain else TREES,
        basis="assumed",
        note="the target's own token after the last accepted one is among them",
    )


def draft(made: Speculation) -> Derivation:
    """Time of drafting in a round."""
    if not made.passes:
        return Derivation(
            "drafting", 0.0, "s", source="a look-up on the host, left out", basis="assumed"
        )
    what = "heads" if made.draft.kind == "medusa" else "passes"
    return Derivation(
        "drafting",
        made.round.draft_s,
        "s",
        formula=f"sum of {what}: {len(made.passes)}",
        substituted=" + ".join(show(each, "s") for each in made.passes),
        source="each priced like a step: sum over operators of max(F / P, B / BW)",
        basis="assumed",
        note="the first pass takes in what was accepted and the draft has not seen: its length is "
        "an expectation"
        if made.draft.sequential
        else "one head after the other, on the state of the last token",
    )


def verify(made: Speculation) -> Derivation:
    """Time of the target's step in a round."""
    target = verifying(made.target)
    batch = replace(made.plain, deployment=target, decode=made.verify)
    summed = step("verification", made.verify, batch)
    drafted = given("drafted", made.tree.nodes, "token")
    return replace(
        summed,
        value=made.round.verify_s,
        inputs=(*summed.inputs, given("batch", made.workload.batch, ""), drafted),
        note=f"{1 + made.tree.nodes} tokens of each sequence, logits of all; mean over the answer",
    )


def tpot(made: Speculation) -> Derivation:
    """Mean time between tokens."""
    every, drafted, verified = tokens(made), draft(made), verify(made)
    return Derivation(
        "TPOT",
        made.round.tpot_s,
        "s",
        formula="(drafting + verification) / tokens of a verification",
        substituted=f"({show(drafted.value, 's')} + {show(verified.value, 's')}) / "
        f"{significant(every.value)}",
        inputs=(drafted, verified, every),
        source=f"{LEVIATHAN}, theorem 3.8, with the time of each step priced",
        basis=worst([every.basis, drafted.basis, verified.basis]),
        note="mean over the answer; that the last round may yield more than is wanted is left out",
    )


def speed_up(made: Speculation) -> Derivation:
    """TPOT without drafts over that with them."""
    without, speculative = times.tpot(made.plain), tpot(made)
    return Derivation(
        "speed-up",
        made.round.speed_up,
        "",
        formula="TPOT without drafts / TPOT with them",
        substituted=f"{show(without.value, 's')} / {show(speculative.value, 's')}",
        inputs=(replace(without, name="TPOT without drafts"), speculative),
        source="definition",
        basis=worst([without.basis, speculative.basis]),
    )


def ttft(made: Speculation) -> Derivation:
    """Arrival to first token."""
    first = times.ttft(made.plain)
    if not made.draft.sequential:
        return first
    drafted = Derivation(
        "prefill of the draft",
        float(made.prefill.seconds),
        "s",
        source="priced like the target's: what drafts takes in the prompts too",
        basis="datasheet",
    )
    return Derivation(
        "TTFT",
        made.ttft_s(),
        "s",
        formula="TTFT without drafts + prefill of the draft",
        substituted=f"{show(first.value, 's')} + {show(drafted.value, 's')}",
        inputs=(replace(first, name="TTFT without drafts"), drafted),
        basis=worst([first.basis, drafted.basis]),
        note="of the prompt prefilled last; no queueing, all prompts arrive at once",
    )


def latency(made: Speculation) -> Derivation:
    """Arrival to last token."""
    first, each, output = ttft(made), tpot(made), made.workload.output
    return Derivation(
        "latency",
        made.latency_s(),
        "s",
        formula="TTFT + (output − 1) · TPOT",
        substituted=f"{show(first.value, 's')} + {output - 1} · {show(each.value, 's')}",
        inputs=(first, each),
        basis=worst([first.basis, each.basis]),
    )


def memory(made: Speculation) -> Derivation:
    """What is in use on a device."""
    own = in_use(replace(made.plain, memory=made.memory))
    extra = made.draft_weights + made.draft_kv
    return Derivation(
        "memory in use",
        own.value + extra,
        "B",
        formula="target + weights of the draft + KV cache of the draft",
        substituted=" + ".join(
            show_binary(value) for value in (own.value, made.draft_weights, made.draft_kv)
        ),
        inputs=(replace(own, name="target"),),
        basis=own.basis,
        note="on one device; drafted tokens are cached too, and have logits",
    )


METRICS: Final[Mapping[str, Callable[[Speculation], Derivation]]] = {
    "tokens": tokens,
    "draft": draft,
    "verify": verify,
    "tpot": tpot,
    "speed_up": speed_up,
    "ttft": ttft,
    "latency": latency,
    "memory": memory,
}


def explain_all(made: Speculation) -> dict[str, Derivation]:
    """Derivations of every metric."""
    return {name: derive(made) for name, derive in METRICS.items()}
