"""A file that is no result, cut off, or of another version is refused where it is."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.errors import DocumentError, RooflineError, UnknownNameError
from roofline.interop.results import MeasuredRun, formats, known_formats, read_results
from roofline.interop.results import content as contents
from roofline.interop.results.content import MOST_BYTES
from tests.cases import examples
from tests.interop.results.test_formats import DATA, FILES

WIDE = "model,gpu,gpus,tp,engine,weights,kv,load,concurrency,prompt,output,ttft_s,p99_tpot_ms"
ROW = "llama-3.1-8b,h100-sxm,1,1,vllm,bf16,bf16,closed,8,1000,100,0.1,12"
JSON = [name for name in FILES if name.endswith(("json", "jsonl"))]


def runs_or_none(path: Path, forced: str = "") -> tuple[MeasuredRun, ...]:
    """Runs of a file, none where it is refused: anything else is a bug."""
    try:
        return read_results(path, format_=forced)
    except RooflineError:
        return ()


def changed(tmp_path: Path, name: str, *path: str | int, value: Any) -> Path:
    """A copy of a file with another value at a path; None removes it."""
    whole = json.loads((DATA / name).read_text("utf-8"))
    place = whole
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    out = tmp_path / name
    out.write_text(json.dumps(whole), "utf-8")
    return out


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.98])
def test_json_that_is_cut_off_says_where(tmp_path: Path, name: str, share: float) -> None:
    text = (DATA / name).read_text("utf-8").rstrip()
    path = tmp_path / name
    cut = text[: max(int(len(text) * share), 2)]
    if name.endswith("jsonl"):
        cut = cut.rstrip().rstrip("}")
    path.write_text(cut, "utf-8")
    with pytest.raises(DocumentError) as refused:
        read_results(path)
    assert refused.value.where.startswith(f"{path}:")
    assert refused.value.hint


@pytest.mark.parametrize("name", ["tidy.csv", "llama_bench.csv", "aiperf.csv"])
def test_a_table_that_is_cut_off_says_the_line(tmp_path: Path, name: str) -> None:
    lines = (DATA / name).read_text("utf-8").split("\n")[:3]
    path = tmp_path / name
    path.write_text("\n".join([*lines[:2], lines[2][: lines[2].index(",") + 3]]), "utf-8")
    with pytest.raises(DocumentError) as refused:
        read_results(path)
    assert refused.value.where == f"{path}:3"


WRONG: dict[str, tuple[str, tuple[str | int, ...], Any, str, str]] = {
    "a schema of GuideLLM to come": (
        "guidellm_0.4.json", ("metadata", "version"), 9, "version 9 of GuideLLM",
        "metadata.version",
    ),
    "a strategy to come": (
        "guidellm_0.4.json", ("benchmarks", 1, "config", "strategy", "type_"), "dance",
        "the strategy 'dance' is not known", "benchmarks[1].config.strategy.type_",
    ),
    "a schema of AIPerf to come": (
        "aiperf.json", ("schema_version",), "2.0", "schema '2.0' of AIPerf", "schema_version",
    ),
    "a unit to come": (
        "aiperf.json", ("request_latency", "unit"), "fortnights", "no unit of time",
        "request_latency.unit",
    ),
    "text for a number": (
        "vllm_serve.json", ("mean_ttft_ms",), "soon", "'soon' is no number", "mean_ttft_ms",
    ),
    "truth for a number": (
        "vllm_serve.json", ("completed",), True, "True is no number", "completed",
    ),
    "a negative time": (
        "vllm_serve.json", ("mean_tpot_ms",), -1.0, "-1.0 is negative", "mean_tpot_ms",
    ),
    "no number at all": (
        "vllm_serve.json", ("mean_tpot_ms",), float("nan"), "nan is not finite", "mean_tpot_ms",
    ),
    "beyond all measure": (
        "vllm_serve.json", ("max_concurrency",), 10**17, "beyond all measure", "max_concurrency",
    ),
    "more digits than a float has": (
        "vllm_serve.json", ("max_concurrency",), 10**309, "beyond all measure", "max_concurrency",
    ),
    "part of a client": (
        "vllm_serve.json", ("max_concurrency",), 2.5, "2.5 is no whole number", "max_concurrency",
    ),
    "a list for a mapping": (
        "aiperf.json", ("time_to_first_token",), [1], "unit is missing", "time_to_first_token",
    ),
    "no count of tokens": (
        "vllm_serve.json", ("total_output_tokens",), None, "total_output_tokens is missing", "",
    ),
    "no section": (
        "trtllm.json", ("world_info", "tp_size"), None, "tp_size is missing", "world_info",
    ),
    "a mapping for a list": (
        "guidellm_0.4.json", ("benchmarks",), [7], "metrics is missing", "benchmarks[0]",
    ),
    "a model that does not generate": (
        "optimum.json", ("report",), {"forward": {}}, "does not generate text", "report",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_at_its_field(tmp_path: Path, name: str) -> None:
    file, path, value, message, field = WRONG[name]
    changed_file = changed(tmp_path, file, *path, value=value)
    with pytest.raises(DocumentError) as refused:
        read_results(changed_file)
    assert message in refused.value.message
    assert refused.value.where == (f"{changed_file}: {field}" if field else str(changed_file))
    assert refused.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"{}", "no known benchmark"),
        (b"[]", "no known benchmark"),
        (b'{"a": 1}', "no known benchmark"),
        (b"hello\nworld\n", "no known benchmark"),
        (b"a,b\n1,2\n", "no known benchmark"),
        (b"ttft_s,colour\n1,red\n", "no column is called 'colour'"),
        (b"ttft_s,ttft_s\n1,1\n", "there twice"),
        (b"ttft_s,ttft_ms\n1,1\n", "ttft_s and ttft_ms are the same figure"),
        (b"mean_tpot_ms,tpot_s\n1,1\n", "mean_tpot_ms and tpot_s are the same figure"),
        (b"ttft_s\n", "there is no run in it"),
        (b'ttft_s\n"1,5"\n', "'1,5' is no number"),
        (b"ttft_s,model\n,llama\n", "nothing is measured"),
        (b"ttft_s,load\n1,heavy\n", "'heavy' is no load"),
        (b'ttft_s,model\n1,"a\n', "not CSV"),
        (b'{"a": \xff}', "0xFF is not UTF-8"),
        (b"PK\x03\x04\x00", "no text"),
        (b'{"a": ' + b"[" * 100_000, "nested too deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too long"),
        (b'{"a": 1,}', "this is not JSON"),
        (b'{"benchmarks": [], "metadata": {"guidellm_version": "1"}}', "there is no run"),
        (b"| model | test | t/s |\n|---|---|---|\n| a | pg | 1 |\n", "'pg' is no test"),
        (b"| model | test | t/s |\n|---|---|---|\n| a | pp5 |\n", "2 values, the header 3"),
        (b"= PERFORMANCE OVERVIEW \nhello\n", "no total latency"),
    ],
)
def test_what_is_no_result_is_one_clear_error(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=said) as refused:
        read_results(path)
    assert refused.value.where.startswith(str(path))
    assert refused.value.hint


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="does not exist"):
        read_results(tmp_path / "none.json")
    with pytest.raises(DocumentError, match="is a folder"):
        read_results(tmp_path)
    broken = tmp_path / "broken.json.gz"
    broken.write_bytes(gzip.compress((DATA / "vllm_serve.json").read_bytes())[:-9])
    with pytest.raises(DocumentError, match="not a whole gzip file"):
        read_results(broken)


def test_packing_marks_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    for name in ("vllm_serve.json", "tidy.csv", "llama_bench.md", "aiperf.csv", "trtllm.txt"):
        content = (DATA / name).read_bytes()
        packed, marked = tmp_path / f"{name}.gz", tmp_path / name
        packed.write_bytes(gzip.compress(content))
        marked.write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))
        plain = read_results(DATA / name)
        for path in (packed, marked):
            again = read_results(path)
            assert [run.scenario for run in again] == [run.scenario for run in plain]
            assert [run.measurements for run in again] == [run.measurements for run in plain]


def test_a_format_can_be_forced_and_then_misses_its_fields() -> None:
    with pytest.raises(DocumentError, match="is missing") as refused:
        read_results(DATA / "vllm_serve.json", format_="guidellm")
    assert "`format_`" in refused.value.hint
    with pytest.raises(UnknownNameError, match="no format is called 'word'") as unknown:
        read_results(DATA / "vllm_serve.json", format_="word")
    assert "vllm-serve" in unknown.value.hint


@pytest.mark.parametrize("forced", [each.name for each in known_formats()])
@pytest.mark.parametrize("name", FILES)
def test_any_file_forced_to_any_format_is_read_or_refused(name: str, forced: str) -> None:
    assert all(run.measurements for run in runs_or_none(DATA / name, forced))


def test_a_format_is_known_by_being_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zebra.py").write_text(
        "from roofline.interop.results.run import ResultFormat\n"
        "def mine(content): return content.text.startswith('stripes')\n"
        "FORMAT = ResultFormat('zebra', 'stripes', mine, lambda content: [], '1')\n",
        "utf-8",
    )
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    known_formats.cache_clear()
    try:
        assert known_formats()[-1].name == "zebra"
        path = tmp_path / "a.txt"
        path.write_text("stripes\n", "utf-8")
        with pytest.raises(DocumentError, match="read as stripes"):
            read_results(path)
    finally:
        known_formats.cache_clear()


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.sampled_from(sorted(FILES)), st.integers(0, 4000), st.binary(max_size=4),
       st.integers(0, 6))  # fmt: skip
def test_whatever_is_in_a_file_is_read_or_refused(
    tmp_path: Path, name: str, at: int, put: bytes, removed: int
) -> None:
    content = (DATA / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(content[:at] + put + content[at + removed :])
    assert all(each.value > 0 for run in runs_or_none(path) for each in run.measurements)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.mark.slow
@settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.sampled_from(JSON), st.randoms(use_true_random=False), JUNK)
def test_whatever_a_field_says_it_is_read_or_refused(
    tmp_path: Path, name: str, draw: Any, junk: Any
) -> None:
    lines = (DATA / name).read_text("utf-8")
    whole = json.loads(lines.splitlines()[0] if name.endswith("jsonl") else lines)
    place: Any = whole
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = draw.choice(list(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.3:
            break
        place = inner
    place[key] = junk
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole), "utf-8")
    assert all(each.value > 0 for run in runs_or_none(path) for each in run.measurements)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("many.json", "{}\n" * 100_000, "no known benchmark"),
        ("more.json", "{}\n" * 150_000, r"more\.json:100001: there are more than 100,000"),
        ("wide.csv", "," * 5_000_000 + "\n", "no known benchmark"),
        ("row.csv", "model,gpu,ttft_s\n" + "," * 5_000_000, "row.csv:2: the line has 5000001"),
        ("rows.csv", f"{WIDE}\n" + f"{ROW}\n" * 200_000, r"rows\.csv:100002: the table has more"),
    ],
)
def test_a_file_of_any_size_is_read_or_refused_at_once(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(DocumentError, match=said):
        read_results(path)
    assert time.process_time() - start < 2.0


def test_a_place_is_as_long_as_a_line_of_a_screen_at_most(tmp_path: Path) -> None:
    path = tmp_path / "vllm.json"
    path.write_text(
        (DATA / "vllm_serve.json").read_text().replace("p99_ttft_ms", f"p1.{'7' * 4000}_ttft_ms")
    )
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({k: "soon" if len(k) > 99 else v for k, v in whole.items()}))
    with pytest.raises(DocumentError, match="is no number") as refused:
        read_results(path)
    assert len(refused.value.where) < len(str(path)) + 210


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(b" " * (MOST_BYTES + 1), 1))
    with pytest.raises(DocumentError, match="is larger than 67,108,864 bytes"):
        read_results(path)
    with pytest.raises(DocumentError, match="it unpacks to more than 100 times its size"):
        read_results(packed)


def test_a_table_that_is_too_long_is_refused_before_a_row_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,1\n" * 109)
    table = contents.content_of(path)
    monkeypatch.setattr(contents, "MOST_DOCUMENTS", 109)
    assert len(contents.rows(table)) == 109
    monkeypatch.setattr(contents, "MOST_DOCUMENTS", 100)
    monkeypatch.setattr(contents, "LocatedValue", lambda *_: pytest.fail("a row was kept"))
    with pytest.raises(DocumentError, match=r"a\.csv:102: the table has more than 100 rows"):
        contents.rows(table)


def test_a_packed_file_of_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"model,test,t/s\n" + b"a,b,1\n" * 300_000))
    with pytest.raises(DocumentError, match=r"a\.csv\.gz:1: it unpacks to more than 100 times"):
        read_results(tmp_path / "a.csv.gz")
