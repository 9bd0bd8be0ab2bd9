"""``roofline disaggregate`` as a person meets it."""

import csv
import io
import json
import re

import pytest

from roofline.cli import run

Captured = pytest.CaptureFixture[str]
MAIN = ["disaggregate", "llama-3.1-70b", "--prefill", "tp4", "--decode", "tp8", "--gpus", "32"]
SPARSE = [
    *["disaggregate", "deepseek-v3", "--node", "hgx-h800-8", "--prefill", "dp16-ep16"],
    *["--decode", "dp32-ep32", "--batch", "2048", "--prompt", "4096", "--output", "1024"],
]


def ask(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_sentences_say_the_ratio_what_binds_and_what_it_costs(capsys: Captured) -> None:
    code, out, err = ask(capsys, *MAIN)
    assert (code, err) == (0, "")
    assert "llama-3.1-70b on 32 × NVIDIA H100 SXM5 80GB" in out
    assert "prefill tp4 apart from decode tp8" in out
    text = re.sub(r"\s+", " ", out.partition("What users feel")[0])
    assert re.search(r"takes [\d.]+ prompts/s, .* gives [\d.]+ answers/s: [\d.]+ prefill", text)
    assert re.search(
        r"On 32 GPUs, \d prefill and \d decode instances? serve .* \$[\d.]+ per million", text
    )
    assert re.search(r"(prefill|decode) sets the pace", text)
    assert re.search(r"Prefill is bound by arithmetic .*, decode by reading weights", text)
    assert "The cache of a prompt, 671 MB, makes decode wait 122 ms, 119 ms of it software" in text
    assert "Both pools fit" in text
    assert re.search(r"Against static batches on tp8 × 4, .*: throughput per GPU × [\d.]+", text)
    for title in ("Pools", "Memory, each device", "KV cache from prefill to decode", "Both phases"):
        assert re.search(rf"(?m)^{title}", out)
    assert "note: TTFT ends with the first step of the decode instance" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        MAIN,
        [*MAIN, "--overlapped", "--prefix-hit", "0.5", "--kv", "fp8"],
        SPARSE,
        [*SPARSE, "--gpus", "1024", "--prefill", "tp2-dp8-ep16-pp2", "--overlapped"],
        [*MAIN, "--decode-gpu", "h20", "--batch", "700"],
        ["disaggregate", "--gpu", "l40s", "--prompt", "30000"],
        ["disaggregate", "--over", "link", "--decode", "tp4"],
        [*MAIN, "--explain", "throughput"],
    ],
    ids=lambda arguments: " ".join(arguments[1:]),
)
def test_it_fits_a_hundred_columns(capsys: Captured, arguments: list[str]) -> None:
    _, out, err = ask(capsys, *arguments)
    assert err == ""
    assert max(len(line) for line in out.splitlines()) <= 100


def test_json_is_one_versioned_document(capsys: Captured) -> None:
    code, out, _ = ask(capsys, *MAIN, "--format", "json", "--explain", "transfer")

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} in JSON")

    document = json.loads(out, parse_constant=refuse)
    result = document["result"]
    assert (code, document["schema"]) == (0, "roofline/result/1")
    assert document["command"] == "disaggregate"
    assert {"pools", "transfer", "alternatives", "summary", "fits", "ratio"} <= set(result)
    first, rest = result["pools"]
    assert result["gpus_used"] == first["instances"] * 4 + rest["instances"] * 8 <= 32
    metrics = result["metrics"]
    wait = {row["what"]: row["value"] for row in result["transfer"]}["waited"]
    step = rest["step_s"]
    first = metrics["prefill_s"]["value"] + wait + step
    assert metrics["ttft_s"]["value"] == pytest.approx(first)
    assert result["derivation"]["name"] == "transfer"
    # 2 · 8 heads · 128 · 80 layers · 2 B · 2048 tokens
    assert result["transfer"][0]["value"] == 671_088_640


def test_csv_has_a_row_for_each_metric_and_nothing_else(capsys: Captured) -> None:
    _, out, _ = ask(capsys, *MAIN, "--format", "csv")
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(out))}
    assert {"ttft_s", "prefill_s", "tpot_s", "usd_per_mtok"} <= set(rows)
    for row in rows.values():
        assert 0 < float(row["low"]) < float(row["value"]) < float(row["high"]), row["metric"]
    _, out, _ = ask(capsys, *MAIN, "--calibration", "none", "--format", "csv")
    bare = {row["metric"]: row for row in csv.DictReader(io.StringIO(out))}
    assert float(bare["ttft_s"]["value"]) <= float(bare["ttft_s"]["serial"])
    assert float(bare["ttft_s"]["value"]) < float(rows["ttft_s"]["value"])
    assert None not in rows["ttft_s"]


def test_markdown_has_tables_and_lists(capsys: Captured) -> None:
    _, out, _ = ask(capsys, *MAIN, "--format", "md")
    assert out.count("| --- |") >= 4
    assert "- TTFT ends with the first step of the decode instance" in out


@pytest.mark.slow
def test_a_derivation_says_where_its_numbers_are_from(capsys: Captured) -> None:
    code, out, _ = ask(capsys, *MAIN, "--explain", "ratio")
    assert code == 0
    assert "answers/s of a decode instance / prompts/s of a prefill instance" in out
    _, out, _ = ask(capsys, *SPARSE, "--overlapped", "--explain", "transfer")
    assert "α + x + (L − 1) · max(x − c, 0)" in out
    assert "hwspecs/nodes/hgx-h800-8.yaml" in out


def test_pools_may_have_devices_of_their_own(capsys: Captured) -> None:
    code, out, _ = ask(capsys, *MAIN, "--decode-gpu", "h200-sxm")
    assert code == 0
    assert re.search(r"× NVIDIA H100 .* \(prefill\) and \d+ × NVIDIA H200", out.replace("\n", " "))


def test_a_feed_forward_pool_of_another_device_is_named(capsys: Captured) -> None:
    asked = "qwen3-30b-a3b --prefill tp1 --decode tp1 --ffn dp4-ep4 --ffn-gpu h200-sxm"
    _, out, _ = ask(capsys, "disaggregate", *asked.split(), "--calibration", "none")
    said = " ".join(out.split())
    assert re.search(r"H100 SXM5 80GB \(prefill, decode\) and \d+ × NVIDIA H200 .*\(feed-f", said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpus", "8"], "8 GPUs do not hold a prefill instance of 4 and a decode instance of 8"),
        (["--gpus", "0"], "gpus is 0"),
        (["--prefill", "tp3"], "prefill pool: llama-3.1-70b: query heads 64 cannot be divided"),
        (["--decode", "dp4"], "decode pool: llama-3.1-70b has no experts"),
        (["--decode", "auto"], "is no degree of parallelism"),
        (["--prefill", ""], "the layout is empty"),
        (["--gpu", "h100-pcie"], "has no network to hand the cache over"),
        (["--over", "link"], "32 GPUs in both pools are not in one node"),
        (["--over", "air"], "'air' is none of its values"),
        (["--output", "1"], "nothing is decoded"),
        (["--batch", "0"], "batch is 0"),
        (["--prefill-batch", "-1"], "prefill batch is -1"),
        (["--price", "2", "--decode-gpu", "h20"], "one price for two kinds of device"),
        (["--mla", "absorbed"], "does not take --mla"),
        (["--explain", "everything"], "nothing called 'everything' to explain"),
        (["--overlap", "2"], "overlap is 2"),
        (["--weights", "int4", "--gpu", "v100-sxm", "--decode-gpu", "h100-sxm"], "keeps its cache"),
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
    code, out, err = ask(capsys, *MAIN, "--prefill", "tp1")
    assert (code, err) == (1, "")
    assert re.search(r"Does not fit: [\d.]+ GiB too much on each prefill device\.", out)


def test_help_names_the_choices(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "disaggregate", "--help")
    assert code == 0
    for option in ("--prefill ", "--decode ", "--decode-gpu", "--over ", "--overlapped"):
        assert option in out


FED = ["disaggregate", "qwen3-30b-a3b", "--decode", "tp1", "--ffn", "dp4-ep4", "--batch", "64"]


@pytest.mark.slow
def test_feed_forward_parts_have_a_pool_of_their_own(capsys: Captured) -> None:
    code, out, _ = ask(capsys, *FED, "--format", "json")
    found = json.loads(out)["result"]
    assert code == 0
    visits, ratios = found["visits"], found["ratios"]
    assert [row["visit"] for row in visits] == ["attention", "to FFN", "FFN", "from FFN"]
    assert visits[2]["gpus"] == 4
    assert visits[0]["gpus"] == ratios[0]["attention_instances"]
    assert ratios[0]["tok_s_per_gpu"] == max(row["tok_s_per_gpu"] for row in ratios)
    said = ask(capsys, *FED, "--decode", "dp2", "--microbatches", "3", "--ffn-over", "link")[1]
    assert "Where a micro-batch goes in a decode step" in said
    assert "2 attention instances on 2 GPUs beside 4 GPUs for feed-forward parts" in (
        re.sub(r"\s+", " ", said)
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--decode", "dp4-ep4"], "say `ep` in `ffn`"),
        (["--ffn-over", "wires"], "over"),
        (["--ffn", "", "--microbatches", "2"], "feed-forward pool that is not there"),
        (["--gpus", "5"], "do not hold an attention instance"),
    ],
)
def test_feed_forward_pools_that_cannot_be_are_refused(
    more: list[str], said: str, capsys: Captured
) -> None:
    code, _, err = ask(capsys, *FED, *more)
    assert code == 2
    text = re.sub(r"\s+", " ", err).replace("--", "")
    assert said.replace("`", "") in text.replace("`", "")
