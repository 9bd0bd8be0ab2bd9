"""JSON: what is read, and the place and words of what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import DocumentError
from roofline.schema import parse_json
from roofline.schema.document import MAX_BYTES, MAX_DEPTH, MAX_NODES


def refusal(text: str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        parse_json(text, "f.json")
    return caught.value


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "1:1", "empty"),
        (" \n", "1:1", "empty"),
        ("{", "1:2", "ends where a key"),
        ('{"a"', "1:5", "ends where ':'"),
        ('{"a":', "1:6", "ends where a value"),
        ('{"a": 1', "1:8", "ends where ',' or '}'"),
        ("[", "1:2", "ends where a value"),
        ('{"a": 1,}', "1:8", "comma after the last item"),
        ("[1,\n]", "1:3", "comma after the last item"),
        ("[,1]", "1:2", "',' is not expected"),
        ("[1,,2]", "1:4", "',' is not expected"),
        ("[1 2]", "1:4", "'2' is not expected"),
        ("[1}", "1:3", "'}' is not expected"),
        ("[1] 2", "1:5", "'2' is not expected"),
        ('{"a" 1}', "1:6", "'1' is not expected"),
        ("{1: 2}", "1:2", "'1' is not expected"),
        ("{a: 1}", "1:2", "'a' is not in quotes"),
        ("{'a': 1}", "1:2", "single quotes"),
        ('{"a": b}', "1:7", "'b' is not in quotes"),
        ("[nullx]", "1:2", "'nullx' is not in quotes"),
        ("[True]", "1:2", "JSON has no 'True'"),
        ("[NaN]", "1:2", "JSON has no 'NaN'"),
        ("[-Infinity]", "1:2", "JSON has no '-Infinity'"),
        ("[1e999]", "1:2", "'1e999' is not a finite number"),
        ("[01]", "1:3", "not written as JSON"),
        ("[1.]", "1:3", "not written as JSON"),
        ("[.5]", "1:2", "not written as JSON"),
        ("[+1]", "1:2", "not written as JSON"),
        ("[-]", "1:2", "not written as JSON"),
        ("[1e]", "1:3", "not written as JSON"),
        ("[0x10]", "1:3", "not written as JSON"),
        ("// x\n1", "1:1", "no comments"),
        ('{"a": 1, # x\n"b": 2}', "1:10", "no comments"),
        ("[1 /* x */]", "1:4", "no comments"),
        ('{"a": 1,\n "b": {"c": 1, "c": 2}}', "2:16", "'c' is here twice; the first is in line 2"),
        ('{"a": 1, "\\u0061": 2}', "1:10", "twice"),
        ("[" + "9" * 65 + "]", "1:2", "more than 64 digits"),
        ("[0." + "1" * 64 + "]", "1:2", "more than 64 digits"),
        ('["abc', "1:2", "not closed"),
        ('["a\nb"]', "1:4", "over a line end"),
        ('["\\x"]', "1:3", "escape sequence"),
        ('["\\u12"]', "1:4", "escape sequence"),
        ('["x\\ud800"]', "1:2", "U+D800"),
        ('["\\u0000"]', "1:2", "U+0000"),
        ('{"\\u001b": 1}', "1:2", "U+001B"),
        ('["é\x00"]', "1:4", "U+0000"),
        ('["\udfff"]', "1:3", "U+DFFF"),
        ("[\u00a01]", "1:2", "'\\xa0' is not expected"),
    ],
)
def test_a_refusal_names_its_place_and_reason(text: str, place: str, words: str) -> None:
    error = refusal(text)
    assert error.where == f"f.json:{place}"
    assert words in error.message
    assert error.hint


def test_depth_and_nodes_and_size_have_caps() -> None:
    assert refusal("[" * (MAX_DEPTH + 1)).where == f"f.json:1:{MAX_DEPTH + 1}"
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH, "f").data
    many = ",".join(["1"] * (MAX_NODES - 1))
    assert len(parse_json(f"[{many}]", "f").data) == MAX_NODES - 1
    assert refusal(f"[{many},1]").where == f"f.json:1:{2 * MAX_NODES}"
    assert parse_json(f'"{"x" * (MAX_BYTES - 2)}"', "f").data
    assert "larger than" in refusal(f'"{"x" * (MAX_BYTES - 1)}"').message


def test_surrogate_pairs_and_a_byte_order_mark_are_read() -> None:
    document = parse_json('\ufeff{"a": "\\ud83d\\ude00"}', "f")
    assert document.data == {"a": "😀"}
    assert document.where("a") == "f:1:7"


def test_values_and_keys_know_their_place() -> None:
    document = parse_json('{"a": 1,\r\n "b\\n" : [ "x", {"é": -1.5e3} ] }', "f.json")
    assert document.where("b\n") == "f.json:2:10"
    assert document.where_key("b\n") == "f.json:2:2"
    assert document.where("b\n", 1, "é") == "f.json:2:23"
    assert document.where_key("b\n", 1, "é") == "f.json:2:18"


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.sampled_from("\t\n\r"))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**63), 10**63)
    | texts
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=30,
)


@given(values, st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_valid_json_means_what_the_standard_library_says(
    value: object, indent: int | str | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    read = parse_json(text, "f").data
    assert read == json.loads(text)
    assert json.dumps(read) == json.dumps(value)  # 1 and 1.0 and True are equal, but not the same


@given(values, st.sampled_from([None, 1]))
def test_the_text_at_a_place_is_the_value(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    document = parse_json(text, "f")
    lines = text.split("\n")
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while waiting:
        path, expected = waiting.pop()
        _, line, column = document.where(*path).rsplit(":", 2)
        rest = "\n".join([lines[int(line) - 1][int(column) - 1 :], *lines[int(line) :]])
        assert json.dumps(json.JSONDecoder().raw_decode(rest)[0]) == json.dumps(expected)
        if isinstance(expected, list):
            waiting += [((*path, index), item) for index, item in enumerate(expected)]
        elif isinstance(expected, dict):
            waiting += [((*path, key), item) for key, item in expected.items()]


@given(st.text(st.sampled_from('[]{}",:.-+0123456789eEtruefalsn \\\n/')))
def test_what_the_standard_library_refuses_is_refused(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        assert refusal(text).where.startswith("f.json:")
