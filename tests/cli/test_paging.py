"""``roofline paging`` as a person meets it."""

import json
import re

import pytest

import roofline
from roofline.cli import run

Captured = pytest.CaptureFixture[str]
MAIN = ["paging", "llama-2-13b", "--gpu", "a100-sxm", "--prompt", "161", "--output", "338"]


def ask(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_it_says_what_pages_save(capsys: Captured) -> None:
    code, out, err = ask(capsys, *MAIN, "--samples", "4")
    assert (code, err) == (0, "")
    text = re.sub(r"\s+", " ", out)
    assert "4 answers to each prompt" in text
    assert re.search(r"in pages of 16, 97\.\d%: \d+ sequences on average, × [\d.]+", text)
    assert "A prompt shared by its 4 answers" in text
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.slow
def test_json_and_csv_carry_the_schemes(capsys: Captured) -> None:
    _, out, _ = ask(capsys, *MAIN, "--format", "json", "--explain", "paged")
    document = json.loads(out)
    assert document["command"] == "paging"
    names = [row["scheme"] for row in document["result"]["schemes"]]
    assert names == ["reserved", "power-of-two", "exact", "paged"]
    for row in document["result"]["schemes"]:
        parts = [row["token_share"], row["waiting_share"], row["unused_share"]]
        assert sum(parts) == pytest.approx(1.0)
    assert document["result"]["derivation"]["unit"] == "token"
    _, out, _ = ask(capsys, *MAIN, "--format", "csv")
    assert len(out.strip().splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--samples", "0"], "samples is 0"),
        (["--reserved", "9"], "9 tokens reserved"),
        (["--page", "-2"], "page is -2"),
        (["--layout", "tp2", "--gpus", "4"], "2 replicas of TP 2"),
        (["--explain", "shared"], "nothing called 'shared'"),
        (["--prompt", "5000"], "llama-2-13b is made for 4,096"),
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


def test_what_does_not_fit_is_a_result_with_exit_code_1(capsys: Captured) -> None:
    code, out, err = ask(capsys, "paging", "llama-3.1-70b")
    assert (code, err) == (1, "")
    assert "Not even one prompt fits" in out


@pytest.mark.slow
def test_python_asks_the_same_question() -> None:
    result = roofline.paging("llama-3.1-8b", samples=2, prompt=1000, output=100)
    assert result.kind == "paging"
    assert result.tables["schemes"]["scheme"][-1] == "shared"
