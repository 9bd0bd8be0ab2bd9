"""Derivations of the figures of speculative decoding."""

from typing import Final

from roofline.records import replace
from roofline.serving.explain import figures
from roofline.serving.explain.figures import memory as in_use
from roofline.serving.explain.operators import step
from roofline.serving.explain.parts import derived, given
from roofline.serving.rounds import verifying
from roofline.serving.speculative import Speculation
from roofline.table import Derivation
from roofline.units import show

LEVIATHAN: Final = "Leviathan et al. 2023 (arXiv 2211.17192)"
TREES: Final = "Medusa, Cai et al. 2024 (arXiv 2401.10774), section 2.3.3"


def tokens(made: Speculation) -> Derivation:
    """Expected tokens of a verification."""
    tree, rate = made.tree, made.acceptance.positions[0][0]
    written = f"written {made.acceptance}"
    accepted = given("acceptance", rate, "", basis="assumed", note=written)
    drafted = given("drafted", tree.nodes, "token")
    terms = {f"to position {n}": level.reached for n, level in enumerate(tree.levels, start=1)}
    formula = " + ".join(["1", *terms])
    if tree.is_chain and made.acceptance.deepest is None and rate < 1:
        formula, terms = "(1 − acceptance^(depth + 1)) / (1 − acceptance)", {"depth": tree.depth}
    return derived(
        "tokens of a verification",
        tree.tokens,
        "token",
        formula,
        (accepted, drafted),
        terms,
        source=f"{LEVIATHAN}, equation 1" if tree.is_chain else TREES,
        note="the target's own token after the last accepted one is among them; each position "
        "counts with the probability that the draft is accepted up to there",
    )


def draft(made: Speculation) -> Derivation:
    """Time of drafting in a round."""
    if not made.passes:
        source = "a look-up on the host, left out"
        return Derivation("drafting", 0.0, "s", source=source, basis="assumed")
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
    batch = replace(made.plain, deployment=verifying(made.target), decode=made.verify)
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
    return derived(
        "TPOT",
        made.round.tpot_s,
        "s",
        "(drafting + verification) / tokens of a verification",
        (draft(made), verify(made), tokens(made)),
        source=f"{LEVIATHAN}, theorem 3.8, with the time of each step priced",
        note="mean over the answer; that the last round may yield more than is wanted is left out",
    )


def speed_up(made: Speculation) -> Derivation:
    """TPOT without drafts over that with them."""
    without = replace(figures.tpot(made.plain), name="TPOT without drafts")
    inputs = (without, tpot(made))
    formula = f"{without.name} / TPOT"
    return derived("speed-up", made.round.speed_up, "", formula, inputs, source="definition")


def bound(made: Speculation) -> Derivation:
    """Speed-up if a verification took no longer than a plain step."""
    without = replace(figures.tpot(made.plain), name="a plain step")
    return derived(
        "bound of the speed-up",
        made.round.bound,
        "",
        "tokens of a verification / (1 + drafting / a plain step)",
        (tokens(made), draft(made), without),
        source=f"{LEVIATHAN}, theorem 3.8",
        note="of K tokens in a row accepted alike (1 − α^(K + 1)) / ((1 − α)·(1 + c·K)), c a "
        "drafting pass over a step; a verification is taken to last as long as a step",
    )


def operations(made: Speculation) -> Derivation:
    """Arithmetic of a token with drafts over that without."""
    found = made.operations[0]
    counts = {"drafting": found.draft, "verification": found.verify, "a step": found.step}
    return derived(
        "operations",
        found.increase,
        "",
        "(drafting + verification) / (tokens of a verification · a step)",
        (tokens(made), *(given(name, count, "FLOP") for name, count in counts.items())),
        source=f"{LEVIATHAN}, theorem 3.11, with the operations of each step counted",
        note="what is refused and what drafts is the extra; mean over the answer",
    )


def ttft(made: Speculation) -> Derivation:
    """Arrival to first token."""
    first = figures.ttft(made.plain)
    if not made.draft.sequential:
        return first
    told = "priced like the target's: what drafts takes in the prompts too"
    prompts = float(made.prefill.seconds)
    drafted = given("prefill of the draft", prompts, "s", told, "datasheet")
    inputs = (replace(first, name="TTFT without drafts"), drafted)
    formula = "TTFT without drafts + prefill of the draft"
    return derived("TTFT", made.ttft_s(), "s", formula, inputs, note=first.note)


def latency(made: Speculation) -> Derivation:
    """Arrival to last token."""
    inputs, output = (ttft(made), tpot(made)), {"output": made.workload.output}
    return derived("latency", made.latency_s(), "s", "TTFT + (output − 1) · TPOT", inputs, output)


def memory(made: Speculation) -> Derivation:
    """Memory in use on a device."""
    own = replace(in_use(replace(made.plain, held=made.memory)), name="target")
    drafts = {"weights of the draft": made.draft_weights, "KV cache of the draft": made.draft_kv}
    return derived(
        "memory in use",
        own.value + sum(drafts.values()),
        "B",
        " + ".join(["target", *drafts]),
        (own, *(given(name, value, "B", "as the target's") for name, value in drafts.items())),
        basis=own.basis,
        binary=True,
        note="on one device; drafted tokens are cached too, and have logits",
    )


def explain_all(made: Speculation) -> dict[str, Derivation]:
    """Derivations of every metric."""
    every = (tokens, draft, verify, tpot, speed_up, bound, operations, ttft, latency, memory)
    return {derive.__name__: derive(made) for derive in every}
