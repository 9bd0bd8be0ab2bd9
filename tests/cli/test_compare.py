"""``roofline compare`` as a person meets it."""

import csv
import io
import json
import re

import pytest

from roofline.cli import run

Captured = pytest.CaptureFixture[str]
MAIN = [
    "compare",
    "llama-2-13b",
    *[
        word
        for change in ("gqa=8", "mla=512", "cla=2", "window=1024", "weights=int4-awq")
        for word in ("--with", change)
    ],
    *["--gpu", "h100-sxm"],
]


def ask(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_variants_stand_side_by_side_with_reasons(capsys: Captured) -> None:
    code, out, err = ask(capsys, *MAIN)
    assert (code, err) == (0, "")
    assert "llama-2-13b and variants on NVIDIA H100 SXM5 80GB" in out
    # Memory, speed and factors; prices have a table of their own where the speeds are wide. The
    # title stands for the base in the table of factors on it.
    tables = len(re.findall(r"(?m)^Variant  ", out))
    assert tables == 3 + ("\n\nVariant            Cost per Mtok" in out)
    for label in ("llama-2-13b", *MAIN[3:12:2]):
        assert len(re.findall(rf"(?m)^{re.escape(label)} ", out)) == tables
    assert len(re.findall(r"(?m)^- ", out)) == 5
    assert "note: Accuracy is out of scope" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--training-tokens", "94e9"],
        ["--with", "gqa=8,window=1024,global-every=6,weights=int4-awq,kv=fp8,batch=256,tp=2"],
        ["--with", "experts=64/8", "--with", "batch=100000", "--tp", "8"],
        ["--convention", "engine", "--batch", "1000"],
    ],
    ids=str,
)
def test_it_fits_a_hundred_columns(capsys: Captured, more: list[str]) -> None:
    _, out, _ = ask(capsys, *MAIN, *more)
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.slow
def test_tokens_of_training_have_a_suffix_as_elsewhere(capsys: Captured) -> None:
    asked = [*MAIN, "--format", "json", "--training-tokens"]
    assert ask(capsys, *asked, "15T")[1] == ask(capsys, *asked, "15e12")[1]


@pytest.mark.slow
def test_json_is_one_versioned_document(capsys: Captured) -> None:
    code, out, _ = ask(capsys, *MAIN, "--format", "json", "--training-tokens", "1e9")

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} in JSON")

    document = json.loads(out, parse_constant=refuse)
    result = document["result"]
    assert (code, document["schema"], document["command"]) == (0, "roofline/result/1", "compare")
    assert result["base"]["variant"] == "llama-2-13b"
    assert [each["variant"] for each in result["variants"]] == MAIN[3:12:2]
    grouped = result["variants"][0]
    assert grouped["kv_bytes_per_token"] == 163840
    assert grouped["factors"]["tpot_s"] == grouped["tpot_s"] / result["base"]["tpot_s"]
    assert "8 of 40" in grouped["why"]
    assert len(result["training"]) == 6
    assert any("Accuracy is out of scope" in note for note in document["notes"])


@pytest.mark.slow
def test_csv_has_a_row_for_each_variant_and_nothing_else(capsys: Captured) -> None:
    _, out, _ = ask(capsys, *MAIN, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["variant"] for row in rows] == ["llama-2-13b", *MAIN[3:12:2]]
    assert float(rows[1]["kv_bytes_per_token"]) == 163840
    assert None not in rows[0]


@pytest.mark.slow
def test_markdown_has_tables_and_lists(capsys: Captured) -> None:
    _, out, _ = ask(capsys, *MAIN, "--format", "md")
    assert out.count("| Variant | Parameters |") == 1
    assert "- gqa=8: KV cache per token" in out


def test_the_lectures_numbers_are_printed(capsys: Captured) -> None:
    """Stanford CS336 lecture 10: TPOT 23.8 ms and 9.97 ms, 2,689 and 6,417 tokens a second."""
    code, out, _ = ask(
        capsys,
        *["compare", "llama-2-13b", "--with", "gqa=8", "--batch", "64", "--prompt", "1024"],
        *["--convention", "textbook", "--calibration", "none"],
    )
    assert code == 0
    assert re.search(r"(?m)^llama-2-13b .* 23\.8 ms +2,689 tok/s", out)
    assert re.search(r"(?m)^gqa=8 .* 9\.97 ms +6,417 tok/s", out)
    assert re.search(r"(?m)^gqa=8 .* × 0\.42 +▲ × 2\.39 ", out)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--with", ""],
        ["--with", "gqa=7"],
        ["--with", "gaq=8"],
        ["--with", "mqa", "--with", "weights=bogus"],
        ["--with", "mqa", "--batch", "0"],
        ["--with", "mqa", "--training-tokens", "nan"],
        ["--with", "mqa", "--training-tokens", "many"],
        ["--with", "sparsity=2:4", "--gpu", "v100-sxm"],
        ["--with", "window=8", "--convention", "textbook"],
        ["--with", "\x1b[31m=3"],
        ["--with", "student=../.."],
        ["--with", "student=\0"],
        ["--with"],
    ],
    ids=str,
)
def test_a_mistake_is_an_error_and_a_hint_and_exit_code_2(
    capsys: Captured, arguments: list[str]
) -> None:
    code, out, err = ask(capsys, "compare", "llama-2-13b", *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .+\nhint: .+\n", err), err
    assert "\x1b" not in err


def test_the_exit_code_is_1_only_if_nothing_fits(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "compare", "llama-3.1-70b", "--with", "weights=int4")
    assert (code, "now it fits" in out) == (0, True)
    code, out, _ = ask(capsys, "compare", "llama-3.1-70b", "--with", "kv=fp8")
    assert (code, "KV cache per token" in out) == (1, True)


@pytest.mark.slow
def test_patched_networks_are_listed_and_shown(capsys: Captured) -> None:
    _, out, _ = ask(capsys, "models")
    assert "llama-3-70b-mla" in out
    code, out, _ = ask(capsys, "models", "show", "llama-3-70b-mla")
    assert code == 0
    assert "mla 512" in out
    assert "llama-3-70b-mla is llama-3-70b with mla 512" in out


def test_help_names_the_changes(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "compare", "--help")
    assert code == 0
    for name in ("gqa=8", "mla=512", "cla=2", "sparsity=2:4", "student=NETWORK"):
        assert name in re.sub(r"\s+", " ", out)
