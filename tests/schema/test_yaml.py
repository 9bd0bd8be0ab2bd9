"""YAML: what is read, and the place and words of what is refused."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import DocumentError
from roofline.schema import Document, parse_yaml
from roofline.schema.document import MAX_BYTES, MAX_DEPTH, MAX_NODES


def refusal(text: str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        parse_yaml(text, "f.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e9", 1e9),
        ("1.5e-3", 0.0015),
        (".5", 0.5),
        ("5.", 5.0),
        ("+7", 7),
        ("-0x10", "-0x10"),
        ("0xfF", 255),
        ("0o17", 15),
        ("010", 10),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1:30:00", "1:30:00"),
        ("2024-05-01", "2024-05-01"),
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("y", "y"),
        ("true", True),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("", None),
        ("=", "="),
        ("e9", "e9"),
        ("-", [None]),
        ("'1'", "1"),
        ('"true"', "true"),
        ('"caf\\u00e9"', "café"),
        ("3.35 TB/s", "3.35 TB/s"),
        ("<<", "<<"),
        ("9" * 64, int("9" * 64)),
        ("0x" + "f" * 64, int("f" * 64, 16)),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(written: str, value: object) -> None:
    data = parse_yaml(f"- {written}", "f.yaml").data
    assert data == [value]
    assert type(data[0]) is type(value)


def test_a_literal_block_keeps_its_lines() -> None:
    assert parse_yaml("a: |\n  x\n  1\n", "f").data == {"a": "x\n1\n"}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "1:1", "empty"),
        ("# only a comment\n", "1:1", "empty"),
        ("---\n", "1:1", "empty"),
        ("a: 1\nb:\n  c: 2\n  c: 3\n", "4:3", "'c' is here twice; the first is in line 3"),
        ("a: 1\n'a': 2", "2:1", "twice"),
        ("{a: 1, a: 2}", "1:8", "twice"),
        ("a: &x 1", "1:4", "anchors ('&x')"),
        ("a: &x {b: 1}", "1:4", "anchors"),
        ("a:\n- *x", "2:3", "aliases ('*x')"),
        ("a: !!str 1", "1:4", "tags ('!!str')"),
        ("a: !!python/object/apply:os.system [id]", "1:4", "tags"),
        ("a: ! 1", "1:4", "tags ('!')"),
        ("a: ! [1]", "1:4", "tags"),
        ("a: !", "1:4", "tags"),
        ("- !x", "1:3", "tags"),
        ("a: 1\n--- \nb: 2", "2:1", "second document"),
        ("%YAML 1.1\n---\na: 1", "1:1", "directives"),
        ("a: 1\n...\n%TAG ! x\n---\nb: 1", "3:1", "directives"),
        ("a:\n  1: x", "2:3", "the key 1 is not text"),
        ("true: x", "1:1", "the key true is not text"),
        ("~: x", "1:1", "the key ~ is not text"),
        ("?\n: 1", "1:2", "the key is empty"),
        ("? [a]\n: 1", "1:3", "used as a key"),
        ("{{a: 1}: 1}", "1:2", "used as a key"),
        ("a: 1\n<<: {b: 1}", "2:1", "merge keys"),
        ("a: .inf", "1:4", "'.inf' is not a finite number"),
        ("[1, -.INF]", "1:5", "not a finite number"),
        ("a: .NaN", "1:4", "not a finite number"),
        ("a: 1e999", "1:4", "'1e999' is not a finite number"),
        ("a: " + "9" * 65, "1:4", "more than 64 digits"),
        ("a: 0." + "1" * 64, "1:4", "more than 64 digits"),
        ("a: 0x" + "f" * 65, "1:4", "more than 64 digits"),
        ("a: 1\nb: x\x00y", "2:5", "U+0000"),
        ("a: 'é\x1b[31m'", "1:6", "U+001B"),
        ("a: \x7f", "1:4", "U+007F"),
        ("a: \ud800", "1:4", "U+D800"),
        ('a: "\\0"', "1:4", "U+0000"),
        ('a: "x\\e[31m"', "1:4", "U+001B"),
        ("a: x\u2028y", "1:5", "U+2028"),
        ("a: x\x85y", "1:5", "U+0085"),
        ("a: \ufeffx", "1:4", "U+FEFF"),
        ("a: b: c", "1:5", "mapping values are not allowed"),
        ("a: [1, 2", "1:9", "did not find expected ',' or ']'"),
        ("a: 'x", "1:6", "unexpected end of stream"),
        ("a:\n\tb: 1", "2:1", "cannot start any token"),
        ('a: "\\q"', "1:5", "unknown escape"),
        ("a: 1\r\nb: 2\r\na: 3", "3:1", "twice"),
        ("a: 1\rb: 2\ra: 3", "3:1", "twice"),
    ],
)
def test_a_refusal_names_its_place_and_reason(text: str, place: str, words: str) -> None:
    error = refusal(text)
    assert error.where == f"f.yaml:{place}"
    assert words in error.message
    assert error.hint


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "[\n"])
def test_depth_is_refused_beyond_the_cap_and_read_at_it(opening: str) -> None:
    error = refusal(opening * (MAX_DEPTH + 1) + "1")
    lines = opening.count("\n") * MAX_DEPTH
    column = 1 if lines else len(opening) * MAX_DEPTH + 1
    assert error.where == f"f.yaml:{lines + 1}:{column}"
    assert "nested more than 32 deep" in error.message


def test_a_document_at_the_caps_is_read() -> None:
    assert parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH, "f").data
    assert len(parse_yaml(f"[{'1,' * (MAX_NODES - 1)}]", "f").data) == MAX_NODES - 1
    assert len(parse_yaml("- " + "x" * (MAX_BYTES - 2), "f").data[0]) == MAX_BYTES - 2


def test_a_document_beyond_a_cap_is_refused() -> None:
    assert refusal(f"[{'1,' * MAX_NODES}]").where == f"f.yaml:1:{2 * MAX_NODES}"
    assert refusal("{" + ",".join(f"k{i}: 1" for i in range(MAX_NODES // 2)) + "}")
    for text in ("- " + "x" * (MAX_BYTES - 1), "- " + "é" * (MAX_BYTES // 2)):
        error = refusal(text)
        assert error.where == "f.yaml:1:1"
        assert "larger than 1,048,576 bytes" in error.message


def test_a_byte_order_mark_at_the_start_is_dropped() -> None:
    document = parse_yaml("\ufeffa: 1", "f")
    assert document.data == {"a": 1}
    assert document.where("a") == "f:1:4"


def test_values_and_keys_know_their_place() -> None:
    document = parse_yaml("a: 1\nb:\n  - x\n  - {c: 'é', d: 2}\ne:\n", "f.yaml")
    assert document.where() == "f.yaml:1:1"
    assert document.where("b") == "f.yaml:3:3"
    assert document.where_key("b") == "f.yaml:2:1"
    assert document.where("b", 1) == document.where_key("b", 1) == "f.yaml:4:5"
    assert document.where("b", 1, "d") == "f.yaml:4:17"
    assert document.where_key("b", 1, "d") == "f.yaml:4:14"
    assert document.where("e") == "f.yaml:5:3"


@pytest.mark.parametrize("path", [("b", 2), ("b", -3), ("b", "x"), ("b", 0, "deep", 3)])
def test_a_path_that_leads_nowhere_gives_its_nearest_parent(path: tuple[str | int, ...]) -> None:
    document = parse_yaml("a: 1\nb: [x, y]\n", "f")
    parent = path[:2] if path[1] == 0 else path[:1]
    assert document.where(*path) == document.where(*parent)


def test_a_document_without_text_is_located_at_its_start() -> None:
    assert Document({"a": [1]}, "made.yaml").where("a", 0) == "made.yaml:1:1"


# Where YAML 1.1, which PyYAML's constructor follows, and 1.2 agree: words that start with a letter
# (the dumper quotes the likes of `no`), and anything in quotes.
letters = st.characters(codec="utf-8", categories=["L"])
printable = st.characters(codec="utf-8", exclude_categories=["C", "Z"])
words = st.builds(str.__add__, letters, st.text(printable, max_size=12))
numbers = st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | words,
    lambda inner: st.lists(inner) | st.dictionaries(words, inner),
    max_leaves=20,
).filter(lambda data: data is not None)


@pytest.mark.slow
@given(documents, st.booleans(), st.booleans())
def test_yaml_means_the_same_as_to_pyyaml_where_both_versions_agree(
    data: object, flow: bool, unicode: bool
) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=unicode)
    read = parse_yaml(text, "f").data
    assert read == yaml.safe_load(text) == data
    assert repr(read) == repr(yaml.safe_load(text))  # 1 and True are equal, but not the same


@given(numbers)
def test_a_float_is_read_to_the_last_bit(number: float) -> None:
    assert parse_yaml(f"- {number!r}", "f").data == [number]


plain_words = st.from_regex(r"[a-z]{1,6}", fullmatch=True)


@pytest.mark.slow
@given(st.recursive(plain_words, lambda d: st.lists(d) | st.dictionaries(plain_words, d)))
def test_the_text_at_a_place_is_the_value(data: object) -> None:
    for flow in (False, True):
        text = yaml.safe_dump(data, default_flow_style=flow, default_style=None)
        document = parse_yaml(text, "f")
        waiting: list[tuple[tuple[str | int, ...], object]] = [((), document.data)]
        while waiting:
            path, value = waiting.pop()
            if isinstance(value, list):
                waiting += [((*path, index), item) for index, item in enumerate(value)]
            elif isinstance(value, dict):
                waiting += [((*path, key), item) for key, item in value.items()]
                for key in value:
                    assert _rest(text, document.where_key(*path, key)).startswith(f"{key}:")
            else:
                assert _rest(text, document.where(*path)).startswith(str(value))


def _rest(text: str, where: str) -> str:
    _, line, column = where.rsplit(":", 2)
    lines = text.split("\n")[int(line) - 1 :]
    # Keys that are words of YAML are quoted.
    return "\n".join(lines)[int(column) - 1 :].replace("'", "").replace('"', "")


def test_the_reader_without_libyaml_reads_and_refuses_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [
        "a: 1\nb: [x, {c: 'é', d: ~}]\ne:\n",
        "a: &x 1",
        "a: ! 1",
        "a: 1\n--- \nb: 2",
        "? [a]\n: 1",
        "a: b: c",
        "a: 'x",
        "a:\n- *x",
        '"x": "a\\tb"\n',
    ]
    fast = [_outcome(text) for text in texts]
    monkeypatch.setattr("roofline.schema.yaml_reader._LOADER", yaml.SafeLoader)
    assert [_outcome(text) for text in texts] == fast


def _outcome(text: str) -> object:
    try:
        document = parse_yaml(text, "f")
    except DocumentError as error:
        # The two word syntax errors and place them differently.
        return "not valid" if "not valid YAML" in error.message else (error.where, error.message)
    return document.data, document.spot
