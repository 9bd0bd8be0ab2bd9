"""``roofline speculate`` as a person meets it."""

import csv
import io
import json
import re

import pytest

import roofline
from roofline import api
from roofline.cli import run
from tests.cli.once import once

Captured = pytest.CaptureFixture[str]
MAIN = [
    *["speculate", "llama-3.1-70b", "--gpus", "4", "--draft", "llama-3.2-1b"],
    *["--length", "4", "--acceptance", "0.7"],
]
FREE = ["speculate", "--draft", "ngram", "--acceptance", "0.5"]
HEADS = [
    *["speculate", "llama-2-7b", "--draft", "medusa", "--tokens", "16", "--batch", "1"],
    *["--acceptance", "0.6+0.15+0.1,0.5+0.1,0.4"],
]
SPARSE = [
    *["speculate", "deepseek-v3", "--node", "hgx-h200-8", "--layout", "dp8-ep8"],
    *["--draft", "mtp", "--length", "2", "--acceptance", "0.85,0.7", "--batch", "128"],
]


PRICED = once(api.speculate)


@pytest.fixture(autouse=True)
def _priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "speculate", PRICED)


def ask(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_sentences_say_the_gain_and_where_it_ends(capsys: Captured) -> None:
    code, out, err = ask(capsys, *MAIN)
    assert (code, err) == (0, "")
    first = out.splitlines()[0]
    assert first.startswith("llama-3.1-70b on 4 × NVIDIA H100")
    text = re.sub(r"\s+", " ", out.partition("What users feel")[0])
    assert "llama-3.2-1b drafts 4 tokens in a row" in text
    assert "yields 2.77 tokens of 5 at an acceptance of 0.7" in text
    assert re.search(r"Drafting takes \d+% of a round; verification takes 1\.\d\d × a decode", text)
    assert re.search(r"(row would do best|compared does better) at a batch of 16", text)
    assert re.search(r"The gain turns into a loss at a batch of \d+, beyond the \d+ that fit", text)
    for title in (
        "What else could be drafted",
        "Other batches",
        "What is in the memory",
        "Acceptance that was",
    ):
        assert re.search(rf"(?m)^{title}", out)
    assert "note: Lossless" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        MAIN,
        [*MAIN, "--draft-tp", "1", "--draft-weights", "fp8"],
        FREE,
        HEADS,
        [*HEADS, "--tokens", "0", "--tree", "3,2,1"],
        SPARSE,
        [*MAIN, "--explain", "speed_up"],
        [*FREE, "--batch", "100000"],
    ],
    ids=lambda arguments: " ".join(arguments[1:]),
)
def test_it_fits_a_hundred_columns(capsys: Captured, arguments: list[str]) -> None:
    _, out, err = ask(capsys, *arguments)
    assert err == ""
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.slow
def test_json_is_one_versioned_document(capsys: Captured) -> None:
    code, out, _ = ask(capsys, *MAIN, "--format", "json", "--explain", "tpot")

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} in JSON")

    document = json.loads(out, parse_constant=refuse)
    result = document["result"]
    assert (code, document["schema"]) == (0, "roofline/result/1")
    assert document["command"] == "speculate"
    metrics = {name: row["value"] for name, row in result["metrics"].items()}
    spent = metrics["draft_s"] + metrics["verify_s"]
    assert metrics["tpot_s"] == pytest.approx(spent / metrics["tokens_per_round"])
    without = result["metrics"]["tpot_s"]["without"]
    assert metrics["speed_up"] == pytest.approx(without / metrics["tpot_s"])
    assert result["metrics"]["draft_s"]["without"] is None
    assert [row["drafted"] for row in result["drafts"]] == list(range(1, 17))
    assert sum(row["best"] for row in result["drafts"]) == 1
    assert next(row for row in result["drafts"] if row["asked"])["drafted"] == 4
    (turn,) = result["turns"]
    assert not turn["gains"]
    sides = {row["batch"] >= turn["batch"]: row["speed_up"] for row in result["batches"]}
    assert sides[True] < 1
    assert result["lossless"] is True
    assert all(row["source"] for row in result["published"])
    assert result["derivation"]["name"] == "TPOT"


@pytest.mark.slow
def test_csv_has_a_row_for_each_metric_and_nothing_else(capsys: Captured) -> None:
    _, out, _ = ask(capsys, *MAIN, "--format", "csv")
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(out))}
    assert {"tokens_per_round", "draft_s", "verify_s", "speed_up", "usd_per_mtok"} <= set(rows)
    for name in ("draft_s", "verify_s", "tpot_s", "speed_up", "ttft_s", "throughput_tok_s"):
        low, value, high = (float(rows[name][column]) for column in ("low", "value", "high"))
        assert 0 < low < value < high, name
    _, out, _ = ask(capsys, *MAIN, "--calibration", "none", "--format", "csv")
    bare = {row["metric"]: row for row in csv.DictReader(io.StringIO(out))}
    assert float(bare["tpot_s"]["value"]) <= float(bare["tpot_s"]["serial"])


@pytest.mark.slow
def test_markdown_has_tables(capsys: Captured) -> None:
    _, out, _ = ask(capsys, *FREE, "--format", "md")
    assert "**What users feel, as predicted**" in out
    assert "| TPOT |" in out


@pytest.mark.slow
def test_the_layout_of_a_tree_is_named(capsys: Captured) -> None:
    _, out, _ = ask(capsys, *HEADS)
    assert "Medusa heads draft a tree of 15 tokens, 3 deep" in re.sub(r"\s+", " ", out)
    _, out, _ = ask(capsys, *FREE, "--length", "1")
    assert "n-grams of the text draft 1 token in a row" in re.sub(r"\s+", " ", out)


def test_an_acceptance_must_be_given_and_is_offered_with_its_source(capsys: Captured) -> None:
    code, out, err = ask(capsys, "speculate", "--draft", "eagle")
    assert (code, out) == (2, "")
    assert "no acceptance rate is right for every text" in err
    assert "--acceptance 0.73,0.71,0.68" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--draft", ""], "nothing drafts"),
        (["--draft", "nonsense"], "draft: no network 'nonsense'"),
        (["--draft", "mtp"], "llama-3.1-70b has no layer that predicts further tokens"),
        (["--draft", "ngram", "--draft-tp", "1"], "--draft ngram does not take --draft-tp"),
        (["--draft", "gpt2"], "2,048 + 256 tokens are 2,304, gpt2 is made for 1,024"),
        (["--draft-tp", "8"], "8 devices share its matrices, 4 those of the target"),
        (["--draft-tp", "3"], "draft: llama-3.2-1b: query heads 32 cannot be divided"),
        (["--acceptance", "1.5"], "acceptance is 1.5"),
        (["--acceptance", "often"], "'often' is not a number"),
        (["--acceptance", "0.7,0.6"], "acceptance is known of 2 positions"),
        (["--length", "17"], "draft length is 17"),
        (["--length", "-1"], "draft length is -1"),
        (["--tree", "2,1"], "a draft by length and widths"),
        (["--length", "0", "--tree", "2,1"], "position 1 has 2 alternatives"),
        (["--length", "0", "--tree", "2;1"], "--tree '2;1' is not a list"),
        (["--length", "0", "--tokens", "5000"], "5000 tokens in a tree"),
        (["--layout", "tp2"], "4 GPUs are 2 replicas of TP 2"),
        (["--layout", "tp2-pp2"], "TP 2 × PP 2 is not priced"),
        (["--output", "1"], "nothing is decoded"),
        (["--batch", "0"], "batch is 0"),
        (["--explain", "everything"], "nothing called 'everything' to explain"),
        (["--mla", "absorbed"], "does not take --mla"),
        (["--memory-utilization", "2"], "memory utilization is 2"),
    ],
    ids=str,
)
def test_a_mistake_is_an_error_and_a_hint_and_exit_code_2(
    capsys: Captured, arguments: list[str], said: str
) -> None:
    code, out, err = ask(capsys, *MAIN, *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .+\nhint: .+\n", err), err
    assert said in err


@pytest.mark.slow
def test_what_does_not_fit_is_a_result_with_exit_code_1(capsys: Captured) -> None:
    code, out, err = ask(capsys, *MAIN, "--gpus", "1")
    assert (code, err) == (1, "")
    assert re.search(r"Does not fit: [\d.]+ GiB too much on the device", out)


@pytest.mark.slow
def test_python_asks_the_same_question() -> None:
    result = roofline.speculate(
        "llama-3.1-8b", draft="ngram", acceptance=0.5, length=2, batch=4, prompt=512, output=32
    )
    assert result.kind == "speculate"
    assert result.tables["headline"]["value"][0] == 1.75
    assert result.derivations["tokens"].value == 1.75
    assert len(result.to_pandas()["drafts"]) == 16


def test_help_names_the_choices(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "speculate", "--help")
    assert code == 0
    for option in ("--draft ", "--acceptance", "--length", "--tree", "--tokens", "--draft-tp"):
        assert option in out
