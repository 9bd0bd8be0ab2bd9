"""Traces: each format by hand, and every bad line refused where it is."""

import gzip
import json
import math
import os
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.errors import DocumentError, InputError, RooflineError
from roofline.interop.traces import read_trace, stream_trace, write_trace
from roofline.serving.requests import COLUMNS, Requests, joined, part, requests
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import ConstantLength, Uniform
from roofline.serving.traffic.traffic import Poisson, SharedPrefixes, Traffic, Turns
from tests.cases import examples

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
BURSTGPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,"API log, batch"
"""
MOONCAKE = """\
{"timestamp": 27482, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 2366]}
{"timestamp": 30535, "input_length": 1536, "output_length": 26, "hash_ids": [46, 47, 2367]}
{"timestamp": 30535, "input_length": 7, "output_length": 1, "hash_ids": [9]}
"""
PLAIN = """\
arrival_s,prompt,output
0.5,100,10
0.5,200,20
1.75,300,30
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "trace.csv"
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


def ids(made: Requests) -> list[list[int]]:
    return [
        made.hashes[start:stop].tolist()
        for start, stop in zip(made.prefix[:-1], made.prefix[1:], strict=True)
    ]


def test_azure_times_are_seconds_since_the_first(written: Callable[[str], Path]) -> None:
    trace = read_trace(written(AZURE))
    assert trace.format == "azure"
    # 50.9951690 − 46.6805900 and 51.2224670 − 46.6805900
    assert trace.requests.arrival == pytest.approx([0.0, 4.314579, 4.541877], abs=1e-6)
    assert trace.requests.prompt.tolist() == [374, 396, 879]
    assert trace.requests.output.tolist() == [44, 109, 55]
    assert trace.notes == ()


def test_azure_times_of_2024_have_a_zone_and_pass_midnight(written: Callable[[str], Path]) -> None:
    text = AZURE.splitlines()[0] + (
        "\n2024-05-10 23:59:59.5+00:00,1,2\n2024-05-11T00:00:00.25Z,3,4\n2024-05-11 00:00:01,5,6\n"
    )
    assert read_trace(written(text)).requests.arrival == pytest.approx([0.0, 0.75, 1.5])


def test_failures_that_burstgpt_records_are_left_out_and_counted(
    written: Callable[[str], Path],
) -> None:
    trace = read_trace(written(BURSTGPT))
    assert trace.format == "burstgpt"
    assert trace.requests.arrival.tolist() == [0.0, 113.0]
    assert trace.requests.output.tolist() == [18, 276]
    assert trace.failed == 1
    assert "1 recorded requests have no answer" in trace.notes[0]


def test_mooncake_ids_are_those_of_whole_blocks(written: Callable[[str], Path]) -> None:
    trace = read_trace(written(MOONCAKE))
    assert trace.format == "mooncake"
    assert trace.requests.arrival == pytest.approx([0.0, 3.053, 3.053])
    # 1100 tokens are two blocks of 512 and a part; 1536 are three; 7 are a part of one.
    assert ids(trace.requests) == [[46, 47], [46, 47, 2367], []]
    assert trace.requests.block == 512


def test_mooncake_ids_may_be_of_smaller_blocks(written: Callable[[str], Path]) -> None:
    text = '{"timestamp": 0, "input_length": 33, "output_length": 1, "hash_ids": [5, 6]}\n'
    made = read_trace(written(text), block=16).requests
    assert (ids(made), made.block) == ([[5, 6]], 16)


def test_a_plain_table_may_have_its_columns_in_any_order(written: Callable[[str], Path]) -> None:
    text = "priority, Output,PROMPT,arrival_s,who\n1,10,100,3.5,x\n0,20,200,4,y\n"
    made = read_trace(written(text)).requests
    assert made.arrival.tolist() == [0.0, 0.5]
    assert (made.prompt.tolist(), made.output.tolist()) == ([100, 200], [10, 20])
    assert made.priority.tolist() == [1, 0]


@pytest.mark.parametrize("text", [AZURE, BURSTGPT, MOONCAKE, PLAIN])
def test_line_ends_marks_and_packing_do_not_matter(tmp_path: Path, text: str) -> None:
    plain, other, packed = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv.gz"))
    plain.write_text(text, encoding="utf-8")
    other.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n\r\n").encode()[:-4])
    packed.write_bytes(gzip.compress(text.encode()))
    first = read_trace(plain).requests
    for path in (other, packed):
        again = read_trace(path).requests
        assert np.array_equal(again.arrival, first.arrival)
        assert ids(again) == ids(first)
        assert again.prompt.tolist() == first.prompt.tolist()


@pytest.mark.parametrize("text", [AZURE, BURSTGPT, MOONCAKE, PLAIN])
@pytest.mark.parametrize("chunk", [1, 2])
def test_chunks_are_the_same_as_the_whole(
    written: Callable[[str], Path], text: str, chunk: int
) -> None:
    path = written(text)
    again, whole = joined(stream_trace(path, chunk=chunk)), read_trace(path).requests
    for name in ("arrival", "prompt", "output", "prefix", "hashes"):
        assert np.array_equal(getattr(again, name), getattr(whole, name)), name


@pytest.mark.parametrize("priority", [False, True])
def test_a_table_of_numbers_is_read_to_the_bit_as_its_lines_are(
    written: Callable[[str], Path], priority: bool
) -> None:
    random = np.random.default_rng(5)
    times = np.cumsum(random.exponential(0.1, 2000)).tolist()
    rows = [f"{time!r},{1 + n % 700},{1 + n % 90}" for n, time in enumerate(times)]
    if priority:
        rows = [f"{row},{n % 3}" for n, row in enumerate(rows)]
    header = "arrival_s,prompt,output" + ",priority" * priority
    path = written("\n".join([header, *rows, ""]))
    for most in (0, 1, 1500):
        whole = read_trace(path, most=most).requests
        again = part(joined(stream_trace(path)), 0, most or len(rows))
        assert len(whole) == (most or len(rows))
        for name in (*COLUMNS, "prefix"):
            assert np.array_equal(getattr(again, name), getattr(whole, name)), name


def test_the_first_requests_are_the_first_that_were_answered(
    written: Callable[[str], Path],
) -> None:
    table = "arrived_at,num_prefill_tokens,num_decode_tokens\n0,5,6\n1,7,0\n2,9,8\n"
    for most in (0, 2, 3):
        trace = read_trace(written(table), most=most)
        assert (trace.requests.prompt.tolist(), trace.failed) == ([5, 9], 1), most


def test_the_first_requests_of_a_trace(written: Callable[[str], Path]) -> None:
    assert read_trace(written(AZURE), most=2).requests.prompt.tolist() == [374, 396]
    # What comes after them is not looked at.
    assert len(read_trace(written(AZURE + "nonsense\n"), most=3).requests) == 3


BAD = {
    "text for a number": (PLAIN.replace("200", "many"), 3, "prompt is 'many', which is no number"),
    "nothing for a number": (PLAIN.replace(",200,", ",,"), 3, "prompt is '', which is no number"),
    "not a number": (PLAIN.replace("1.75", "nan"), 4, "arrival_s is 'nan', which is not finite"),
    "beyond floats": (PLAIN.replace("1.75", "1e999"), 4, "not finite"),
    "negative length": (PLAIN.replace("100", "-100"), 2, "which is negative"),
    "half a token": (PLAIN.replace("100", "100.5"), 2, "not a whole number"),
    "no token": (PLAIN.replace("100", "0"), 2, "less than 1"),
    "too long": (PLAIN.replace("100", "1e12"), 2, "more than 2,147,483,648"),
    "back in time": (PLAIN.replace("1.75", "0.25"), 4, "comes before the one above it"),
    "negative time": (PLAIN.replace("0.5,100", "-0.5,100"), 2, "negative"),
    "too few values": (PLAIN.replace("0.5,200,20", "0.5,200"), 3, "2 values, the header 3"),
    "too many values": (PLAIN.replace("0.5,200,20", "0.5,200,20,1"), 3, "4 values, the header 3"),
    "an open quote": (PLAIN.replace("0.5,200,20", '0.5,"200,20'), 3, "not CSV"),
    "cut off": (PLAIN[:-4], 4, "the last line is cut off"),
    "cut off in a number": (AZURE.strip()[:-14], 4, "the last line is cut off"),
    "other columns": (PLAIN.replace("prompt", "promt"), 1, "no trace has the columns"),
    "no header": (PLAIN.split("\n", 1)[1], 1, "no trace has the columns '0.5,100,10'"),
    "a column twice": (PLAIN.replace("output", "output,prompt"), 1, "there twice"),
    "no time of day": (AZURE.replace("2023-11-16 18:15:50.9951690", "12"), 3, "which is no time"),
    "no such day": (AZURE.replace("11-16 18:15:50", "11-31 18:15:50"), 3, "which is no time"),
    "digits of another script": (AZURE.replace("9951690", "99\u0663"), 3, "which is no time"),
    "another zone": (AZURE.replace("9951690", "9951690+02:00"), 3, "which is no time"),
    "an earlier day": (AZURE.replace("16 18:15:50", "15 18:15:50"), 3, "before the one above"),
    "not JSON": (MOONCAKE.replace("26,", "26"), 2, "not JSON at column"),
    "not an object": (MOONCAKE + "[1]\n", 4, "not an object"),
    "a key missing": (MOONCAKE.replace('"output_length": 26, ', ""), 2, "output_length is missing"),
    "text in JSON": (MOONCAKE.replace("1536", '"1536"'), 2, "which is no number"),
    "truth in JSON": (MOONCAKE.replace("1536", "true"), 2, "which is no number"),
    "NaN in JSON": (MOONCAKE.replace("1536", "NaN"), 2, "input_length is nan"),
    "half a token in JSON": (MOONCAKE.replace("1536", "1536.5"), 2, "not a whole number"),
    "no answer in JSON": (MOONCAKE.replace(": 26", ": 0"), 2, "output_length is 0"),
    "time back in JSON": (MOONCAKE.replace("30535", "100", 1), 2, "before the one above"),
    "too many blocks": (MOONCAKE.replace("[9]", "[9, 10]"), 3, "2 blocks of 512 tokens"),
    "ids of text": (MOONCAKE.replace("[9]", '["9"]'), 3, "not a list of whole numbers"),
    "ids beyond measure": (MOONCAKE.replace("[9]", f"[{2**63}]"), 3, "not a list of whole"),
    "no ids": (MOONCAKE.replace("[9]", "9"), 3, "not a list of whole numbers"),
    "JSON cut off": (MOONCAKE[:-20], 3, "the last line is cut off"),
    "too deep": (MOONCAKE.replace("[9]", "[" * 100_000), 3, "not JSON"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("chunk", [1, 1000])
def test_a_bad_line_is_refused_where_it_is(
    written: Callable[[str], Path], name: str, chunk: int
) -> None:
    text, line, said = BAD[name]
    path = written(text)
    with pytest.raises(DocumentError) as refused:
        list(stream_trace(path, chunk=chunk))
    assert refused.value.where == f"{path}:{line}"
    assert said in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"arrival_s,prompt,output\n", "no request that was answered"),
        (BURSTGPT.splitlines()[0].encode() + b"\n1,a,5,0,5,b\n", "no request that was answered"),
        (b"arrival_s,prompt,output\n1,\xff,3\n", "0xFF is not UTF-8"),
        (b"PK\x03\x04\x00\x00", "no text"),
        (b"a" * (2**20 + 2), "longer than"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=said) as refused:
        read_trace(path)
    assert refused.value.hint


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="does not exist"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(DocumentError, match="is a folder"):
        read_trace(tmp_path)
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(gzip.compress(PLAIN.encode())[:-9])
    with pytest.raises(DocumentError, match="not a whole gzip file"):
        read_trace(broken)
    broken.write_bytes(b"not packed")
    with pytest.raises(DocumentError, match="not a whole gzip file"):
        read_trace(broken)
    with pytest.raises(InputError, match="blocks of 0 tokens"):
        read_trace(broken, block=0)


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from([AZURE, BURSTGPT, MOONCAKE, PLAIN]),
    st.integers(0, 400),
    st.binary(max_size=4),
    st.integers(0, 4),
)
def test_whatever_is_in_a_file_is_read_or_refused(
    tmp_path: Path, text: str, at: int, put: bytes, removed: int
) -> None:
    content = text.encode()
    path = tmp_path / "trace.csv"
    path.write_bytes(content[:at] + put + content[at + removed :])
    try:
        made = read_trace(path).requests
    except RooflineError:
        return
    assert (np.diff(made.arrival) >= 0).all()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    traffic = Traffic(Uniform(1, 900), ConstantLength(7), Poisson(3.0), 200, SharedPrefixes(600, 3))
    made = draw(traffic, 1, block=512)
    path = tmp_path / "out.jsonl"
    assert write_trace([made], path) == 200
    again = read_trace(path)
    assert again.format == "mooncake"
    assert again.requests.arrival == pytest.approx(made.arrival - made.arrival[0], abs=1e-12)
    assert again.requests.prompt.tolist() == made.prompt.tolist()
    assert ids(again.requests) == ids(made)
    assert json.loads(path.read_text("utf-8").splitlines()[0]).keys() == {
        "timestamp", "input_length", "output_length", "hash_ids",
    }  # fmt: skip


def test_whole_milliseconds_are_written_as_such(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    write_trace([requests([0.0, 0.25, 1 / 3], 5, 5)], path)
    times = [json.loads(line)["timestamp"] for line in path.read_text("utf-8").splitlines()]
    assert times[:2] == [0, 250]
    assert math.isclose(times[2], 1000 / 3)


def test_sessions_and_bad_places_cannot_be_written(tmp_path: Path) -> None:
    sessions = draw(Traffic(requests=5, turns=Turns(ConstantLength(2))))
    with pytest.raises(InputError, match="sessions cannot be written"):
        write_trace([sessions], tmp_path / "out.jsonl")
    with pytest.raises(InputError, match="there is no folder"):
        write_trace([requests([0.0], 5, 5)], tmp_path / "none" / "out.jsonl")


def test_a_quote_that_opens_in_one_line_and_closes_in_another_is_refused(
    written: Callable[[str], Path],
) -> None:
    text = 'arrival_s,prompt,output,who\n0,1,1,"a\n1,2,2,b"\n'
    path = written(text)
    with pytest.raises(DocumentError, match="not CSV") as refused:
        read_trace(path)
    assert refused.value.where == f"{path}:2"


@pytest.mark.slow
def test_a_million_rows_are_read_in_seconds(tmp_path: Path) -> None:
    """In processor time, of a fifth of them: linear in their number, and at most 5 µs a row."""
    rows = 200_000
    table, entries = tmp_path / "t.csv", tmp_path / "t.jsonl"
    table.write_text("arrival_s,prompt,output\n" + "".join(f"{i},300,10\n" for i in range(rows)))
    write_trace([requests(np.arange(rows) * 0.01, 600, 20)], entries)
    for path in (table, entries):
        start = time.process_time()
        assert len(read_trace(path).requests) == rows
        assert time.process_time() - start < 2.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n" * 30_000_000, r":1: it unpacks to more than 100 times its size"),
        (PLAIN.encode() + b"9,1,1\n" * 2_000_000, r":1: it unpacks to more than 100 times"),
    ],
)
def test_a_small_file_that_unpacks_to_a_large_one_is_refused(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(content))
    start = time.process_time()
    with pytest.raises(DocumentError, match=said):
        read_trace(path)
    assert time.process_time() - start < 1.0
    packed = gzip.compress(content)[:-4] + (10).to_bytes(4, "little")  # says that it is small
    path.write_bytes(packed)
    with pytest.raises(DocumentError, match=r"it unpacks to more than|lines in a row are empty"):
        read_trace(path)


def test_empty_lines_without_end_are_refused_at_their_place(written: Callable[[str], Path]) -> None:
    some = PLAIN + "\n" * 50_000 + "9,5,5\n"
    assert len(read_trace(written(some)).requests) == len(read_trace(written(PLAIN)).requests) + 1
    with pytest.raises(DocumentError, match="more than 100,000 lines in a row are empty"):
        read_trace(written(PLAIN + "\n" * 1_000_000))


def test_what_is_wrong_is_told_after_what_is_right_above_it(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(PLAIN.encode() + b"9,5,x\n9,5,\xff\n")
    with pytest.raises(DocumentError, match=r"0xFF is not UTF-8"):
        read_trace(path)
    known = len(read_trace(path, most=1).requests)
    assert known == 1


def test_ids_of_blocks_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    entry = {"timestamp": 0, "input_length": 5120, "output_length": 1, "hash_ids": list(range(10))}
    path.write_text(f"{json.dumps(entry)}\n" * 100)
    monkeypatch.setattr("roofline.interop.traces.reading.MOST_TEXT", 1000)
    whole = read_trace(path).requests
    assert [len(made) <= 12 for made in stream_trace(path)] == [True] * 10
    monkeypatch.setattr("roofline.interop.traces.reading.MOST_TOGETHER", 500)
    with pytest.raises(InputError, match="more than 500 ids of blocks"):
        read_trace(path)
    assert len(read_trace(path, most=20).requests) == 20
    assert len(whole) == 100


def test_times_beyond_64_bits_of_nanoseconds_are_in_order(written: Callable[[str], Path]) -> None:
    text = AZURE.splitlines()[0] + (
        "\n2262-04-11 23:47:16.5,1,2\n2262-04-11 23:47:17.25,3,4\n9999-12-31 23:59:59,5,6\n"
    )
    arrival = read_trace(written(text)).requests.arrival
    assert arrival[:2] == pytest.approx([0.0, 0.75])
    days = (date(9999, 12, 31) - date(2262, 4, 11)).days
    assert arrival[2] == days * 86400 + 762.5


SPLITWISE = """\
request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size
0,2,0,1.5,1,374,44
1,2,0,2.0,1,396,109
"""
VIDUR = """\
,arrived_at,num_prefill_tokens,num_decode_tokens,pd_ratio
0,10.0,374,44,8.5
1,10.5,396,109,3.6
"""
BAILIAN = """\
{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 40, "output_length": 9, \
"type": "text", "turn": 1, "hash_ids": [7, 8, 9]}
{"chat_id": 2, "parent_chat_id": 1, "timestamp": 63.614, "input_length": 64, "output_length": 3, \
"type": "text", "turn": 2, "hash_ids": [7, 8, 10, 11]}
"""
SHAREGPT = """\
[
  {"id": "a", "conversations": [{"from": "human", "value": "abcdefgh"},
                                {"from": "gpt", "value": "abcdefghijkl"},
                                {"from": "human", "value": "more"}]},
  {"id": "b", "conversations": [{"from": "gpt", "value": "alone"}]},
  {"id": "c", "conversations": [{"from": "human", "value": "你好"},
                                {"from": "gpt", "value": "abcd"}]}
]
"""
MESSAGES = """\
{"custom_id": "1", "body": {"messages": [{"role": "system", "content": "abcd"}, \
{"role": "user", "content": "abcdefg"}], "max_tokens": 64}}
{"messages": [{"role": "user", "content": [{"type": "text", "text": "abcdefgh"}]}, \
{"role": "assistant", "content": "abcd"}]}
{"messages": [{"role": "user", "content": "no length of the answer"}]}
"""


@pytest.mark.parametrize(
    ("text", "name"), [(SPLITWISE, "splitwise"), (VIDUR, "vidur")], ids=["splitwise", "vidur"]
)
def test_tables_of_simulators_are_told_by_their_columns(
    written: Callable[[str], Path], text: str, name: str
) -> None:
    trace = read_trace(written(text))
    assert trace.format == name
    assert trace.requests.arrival.tolist() == [0.0, 0.5]
    assert trace.requests.prompt.tolist() == [374, 396]
    assert trace.requests.output.tolist() == [44, 109]
    assert trace.timed


def test_lengths_without_times_all_arrive_at_once(written: Callable[[str], Path]) -> None:
    total = "num_prefill_tokens,num_decode_tokens,num_total_tokens\n5,6,11\n7,8,15\n"
    for text in (total, "num_prefill_tokens,num_decode_tokens\n5,6\n7,8\n"):
        trace = read_trace(written(text))
        assert (trace.format, trace.timed) == ("vidur-lengths", False)
        assert trace.requests.arrival.tolist() == [0.0, 0.0]
        assert trace.requests.prompt.tolist() == [5, 7]


def chat(place: int, before: int, seconds: float, prompt: int, ids: list[int]) -> str:
    entry = {
        "chat_id": place,
        "parent_chat_id": before,
        "timestamp": seconds,
        "input_length": prompt,
        "output_length": 40,
        "turn": 1,
        "hash_ids": ids,
    }
    return json.dumps(entry) + "\n"


def test_requests_of_a_chat_wait_for_the_answer_that_they_go_on_from(
    written: Callable[[str], Path],
) -> None:
    lines = [
        chat(7, -1, 1.0, 32, [1, 2]),
        chat(8, -1, 2.0, 16, [5]),
        chat(3, 7, 11.0, 64, [1, 2, 3, 4]),
        chat(4, 99, 12.0, 16, [6]),  # what it goes on from was not recorded
        chat(5, 8, 2.5, 32, [5, 9]),
        chat(6, 3, 31.0, 80, [1, 2, 3, 4, 8]),
    ]
    lines[2:5] = [lines[4], lines[2], lines[3]]  # by time
    path = written("".join(lines))
    made = read_trace(path, chained=True).requests
    # Sessions in the order in which they begin, those of each together; 40 tokens take 1 s.
    assert made.arrival.tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 11.0]
    assert made.after.tolist() == [-1, 0, 1, -1, 3, -1]
    assert made.think.tolist() == pytest.approx([0.0, 9.0, 19.0, 0.0, 0.0, 0.0])
    assert ids(made) == [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 8], [5], [5, 9], [6]]
    single = read_trace(path).requests
    assert (single.after == -1).all()
    assert sorted(single.prompt) == sorted(made.prompt)
    assert len(read_trace(path, chained=True, most=3).requests) == 3


def test_chats_that_a_trace_does_not_name_are_refused(written: Callable[[str], Path]) -> None:
    for text in (MOONCAKE, PLAIN):
        with pytest.raises(InputError, match="does not say which requests are of one chat"):
            read_trace(written(text), chained=True)
    whole = chat(1, -1, 0.0, 16, [1])
    for wrong, said in (
        ('"parent_chat_id": "a"', "no whole number"),
        ('"x": 1', "parent_chat_id is missing"),
    ):
        path = written(whole + chat(2, 1, 1.0, 16, [2]).replace('"parent_chat_id": 1', wrong))
        with pytest.raises(DocumentError, match=said) as error:
            read_trace(path, chained=True)
        assert ":2" in str(error.value.where)


def test_bailian_is_in_seconds_and_blocks_of_16(written: Callable[[str], Path]) -> None:
    """40 tokens are two whole blocks of 16, 64 are four."""
    trace = read_trace(written(BAILIAN))
    assert (trace.format, trace.requests.block) == ("bailian", 16)
    assert trace.requests.arrival.tolist() == pytest.approx([0.0, 2.5])
    assert ids(trace.requests) == [[7, 8], [7, 8, 10, 11]]


def test_sharegpt_counts_the_first_question_and_its_answer(written: Callable[[str], Path]) -> None:
    """Four characters a token, one for each Chinese one."""
    trace = read_trace(written(SHAREGPT))
    assert (trace.format, trace.timed, trace.failed) == ("sharegpt", False, 1)
    assert trace.requests.prompt.tolist() == [2, 2]
    assert trace.requests.output.tolist() == [3, 1]
    assert "estimated" in trace.notes[0]
    assert trace.notes[1] == "1 recorded requests have no answer: they are left out."


def test_messages_are_prompts_up_to_the_last_answer(written: Callable[[str], Path]) -> None:
    """System and user with a line between are 12 characters, 3 tokens."""
    trace = read_trace(written(MESSAGES))
    assert (trace.format, trace.failed) == ("openai", 1)
    assert trace.requests.prompt.tolist() == [3, 2]
    assert trace.requests.output.tolist() == [64, 1]


def test_texts_are_read_across_blocks_of_the_file(
    written: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A character of three bytes may be cut at the end of a block, an item anywhere."""
    whole = read_trace(written(SHAREGPT)).requests
    for size in (1, 2, 3, 7, 64):
        monkeypatch.setattr("roofline.interop.traces.chats.BLOCK", size)
        again = read_trace(written(SHAREGPT)).requests
        assert again.prompt.tolist() == whole.prompt.tolist()
    packed = tmp_path / "chats.json.gz"
    packed.write_bytes(gzip.compress(SHAREGPT.encode()))
    assert read_trace(packed).requests.output.tolist() == whole.output.tolist()


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (SHAREGPT[:-60], "cut off", 6),
        (SHAREGPT.replace('"from": "gpt", "value": "alone"', '"who": "gpt"'), "", 0),
        ('[{"conversations": [{"from": "human"}, {"from": "gpt"}]}]', "none of the", 1),
        ('{"messages": 5}\n', "none of the", 1),
        ('{"prompt": "a", "max_tokens": 3}\n[1]\n', "no object", 2),
        ('{"messages": [{"role": "user", "content": "x"}]}', "no request with", 0),
        ('{"prompt": "a", "max_tokens": -1}', "no request with", 0),
        ('{"prompt": "a", "max_tokens": "many"}', "no number of tokens", 1),
        ('{"prompt": "a", "max_tokens": NaN}', "no number of tokens", 1),
        ('{"prompt": "a", "max_tokens": 1e30}', "no number of tokens", 1),
        (f'{{"prompt": "a", "max_tokens": {10**400}}}', "no number of tokens", 1),
    ],
)
def test_texts_that_are_no_requests_are_refused_where_they_are(
    written: Callable[[str], Path], text: str, message: str, line: int
) -> None:
    if not message:
        assert read_trace(written(text)).failed == 1  # a turn of nobody answers nothing
        return
    with pytest.raises(DocumentError) as refused:
        read_trace(written(text))
    assert message in refused.value.message
    if line:
        assert refused.value.where.endswith(f":{line}")
    assert refused.value.hint


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="there are no pipes with names")
def test_a_trace_may_come_through_a_pipe() -> None:
    """No byte is looked at beforehand: a pipe gives each once."""
    out, into = os.pipe()
    try:
        os.write(into, PLAIN.encode())
        os.close(into)
        assert len(read_trace(Path(f"/dev/fd/{out}")).requests) == PLAIN.count("\n") - 1
    finally:
        os.close(out)
