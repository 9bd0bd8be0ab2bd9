"""Every figure of speculative decoding is explained, and said in words."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from roofline.serving.acceptance import parse
from roofline.serving.draft_trees import full
from roofline.serving.explain.speculative import explain_all
from roofline.serving.speculative import Speculation
from roofline.serving.speculative_result import notes, result_of, sentences
from roofline.serving.workload import Workload
from roofline.table import BASES, Derivation
from tests.formulas import evaluated
from tests.serving.speculating import KINDS, made


def entries(derivation: Derivation) -> Iterator[Derivation]:
    yield derivation
    for part in derivation.inputs:
        yield from entries(part)


EXPLAINED: Final[dict[str, dict[str, Any]]] = {
    **{kind: {"kind": kind} for kind in KINDS},
    "by position": {"kind": "eagle", "acceptance": "0.7,0.6,0.5"},
    "certain": {"kind": "model", "acceptance": "1"},
    "tree": {"kind": "medusa", "acceptance": "0.6+0.1,0.5+0.1", "tokens": 5},
}


@pytest.fixture(params=EXPLAINED, scope="module")
def case(request: pytest.FixtureRequest) -> Speculation:
    return made(**EXPLAINED[request.param])


@pytest.mark.slow
def test_every_figure_is_explained_by_its_own_value(case: Speculation) -> None:
    every, headline = explain_all(case), result_of(case).tables["headline"]
    shown = {row["metric"]: row["value"] for row in headline.rows()}
    for metric, explained in {
        "tokens_per_round": "tokens",
        "draft_s": "draft",
        "verify_s": "verify",
        "tpot_s": "tpot",
        "speed_up": "speed_up",
        "operations": "operations",
        "ttft_s": "ttft",
        "latency_s": "latency",
    }.items():
        assert every[explained].value == pytest.approx(shown[metric], rel=1e-12), metric
    held = case.memory.budget - case.free
    assert every["memory"].value == pytest.approx(held, rel=1e-12)
    assert list(every) == [
        *("tokens", "draft", "verify", "tpot", "speed_up", "bound", "operations"),
        *("ttft", "latency", "memory"),
    ]


@pytest.mark.slow
def test_numbers_put_into_a_formula_give_its_value(case: Speculation) -> None:
    for metric, derivation in explain_all(case).items():
        for entry in entries(derivation):
            text = entry.substituted.replace("GiB", "Gi B").replace("MiB", "Mi B")
            if not text or "mean over" in text or metric == "memory":
                continue
            power = re.fullmatch(r"\(1 − ([\d.]+)\^\((\d+) \+ 1\)\) / \(1 − [\d.]+\)", text)
            if power:
                rate, length = float(power[1]), int(power[2])
                value = (1 - rate ** (length + 1)) / (1 - rate)
            else:
                value = evaluated(text)
            assert value == pytest.approx(entry.value, rel=0.02, abs=1e-12), (metric, entry)


def test_every_branch_ends_in_a_source_or_a_formula(case: Speculation) -> None:
    for derivation in explain_all(case).values():
        for entry in entries(derivation):
            assert entry.inputs or entry.source or entry.formula, entry
            assert entry.basis in ("", *BASES)


def test_what_leans_on_an_acceptance_is_assumed(case: Speculation) -> None:
    headline = {row["metric"]: row for row in result_of(case).tables["headline"].rows()}
    for metric in ("tokens_per_round", "tpot_s", "speed_up", "latency_s", "throughput_tok_s"):
        assert headline[metric]["basis"] == "assumed", metric
    assert any("given, not predicted" in note for note in notes(case))
    assert any(note.startswith("Lossless") for note in notes(case))


@pytest.mark.slow
def test_sentences_say_the_gain_and_where_it_ends() -> None:
    said = " ".join(sentences(made(work=Workload(8, 128, 32))))
    assert re.search(r"yields 2\.53 tokens of 4 at an acceptance of 0\.7", said)
    assert re.search(r"The gain turns into a loss at a batch of [\d,]+\.", said)
    assert re.search(r"it gains from an acceptance of 0\.\d\d on", said)
    lost = " ".join(sentences(made(work=Workload(512, 128, 32))))
    assert "a loss (× 0." in lost
    assert re.search(r"It is a loss from a batch of [\d,]+ on\.", lost)


def test_a_tree_is_not_said_to_have_a_least_acceptance() -> None:
    said = " ".join(sentences(made("eagle", "0.6+0.1,0.5", widths=(2, 1))))
    assert "from an acceptance" not in said
    assert full(parse("0.6+0.1,0.5"), (2, 1)).nodes == 4
