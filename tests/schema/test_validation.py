"""Models of documents: what is taken as it is written, and how a refusal reads."""

import json
from enum import Enum
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, RootModel, field_validator, model_validator

from roofline.errors import DocumentError, QuantityError
from roofline.schema import Document, SourcedFigure, Strict, parse_json, parse_yaml, validate


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Wire(Strict):
    kind: Literal["wire"]
    rate: SourcedFigure


class Radio(Strict):
    kind: Literal["radio"]
    channel: int = Field(ge=1, le=13)


class Machine(Strict):
    name: str = Field(default="x", min_length=1, max_length=8, pattern="^[a-z]*$")
    cores: int = 1
    watts: float = 1.0
    fast: bool = False
    colour: Colour = Colour.RED
    sort: Literal["small", "large"] = "small"
    sizes: tuple[int, ...] = ()
    memory: SourcedFigure | None = None
    figures: dict[str, SourcedFigure | int] | None = None
    link: Annotated[Wire | Radio, Field(discriminator="kind")] | None = None
    links: tuple[Wire | Radio, ...] = ()
    layers: Annotated[tuple[int, ...], Field(min_length=1, max_length=3)] = (1,)

    @field_validator("watts")
    @classmethod
    def _not_seven(cls, value: float) -> float:
        if value == 7:
            raise ValueError("seven watts are unlucky")
        return value

    @model_validator(mode="after")
    def _cores_for_large(self) -> "Machine":
        if self.sort == "large" and self.cores == 1:
            raise ValueError("a large machine needs more than one core")
        return self


class Needy(Strict):
    name: str
    machine: Machine
    title: str


def refusal(text: str, model: type[Strict] = Machine) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        validate(model, parse_yaml(text, "f.yaml"))
    return caught.value


def test_values_are_taken_as_they_are_written() -> None:
    text = "{cores: 2, watts: 3, colour: blue, sizes: [1, 2], memory: {value: 8 GiB, source: s}}"
    machine = validate(Machine, parse_yaml(text, "f"))
    assert machine.watts == 3.0
    assert type(machine.watts) is float
    assert machine.colour is Colour.BLUE
    assert machine.sizes == (1, 2)
    assert machine.memory == SourcedFigure(value="8 GiB", source="s")


@pytest.mark.parametrize(("written", "kind"), [("3", int), ("3.0", float), ("'3'", str)])
def test_a_figure_keeps_the_kind_it_is_written_in(written: str, kind: type) -> None:
    figure = validate(SourcedFigure, parse_yaml(f"{{value: {written}, source: s}}", "f"))
    assert type(figure.value) is kind


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("cores: '3'", "1:8", "'cores' must be a whole number, not '3'", "write 3, without"),
        ("cores: 1_000", "1:8", "'cores' must be a whole number, not '1_000'", "write 1000, with"),
        ("cores: 1,000", "1:8", "'cores' must be a whole number, not '1,000'", "write 1000, with"),
        ("cores: 1,5", "1:8", "'cores' must be a whole number, not '1,5'", "write a whole number"),
        ("watts: 1,5", "1:8", "'watts' must be a number, not '1,5'", "write a number"),
        ("watts: '1.5e3'", "1:8", "'watts' must be a number, not '1.5e3'", "write 1.5e3, with"),
        ("cores: 3.0", "1:8", "'cores' must be a whole number, not 3.0", "without a fraction"),
        ("cores: true", "1:8", "'cores' must be a whole number, not true", "write a whole number"),
        (
            "cores:",
            "1:7",
            "'cores' must be a whole number, not nothing",
            "after the colon",
        ),
        ("watts: Infinity", "1:8", "'watts' must be a number, not 'Infinity'", "write a number"),
        ("watts: true", "1:8", "'watts' must be a number, not true", "write a number"),
        ("fast: no", "1:7", "'fast' must be true or false, not 'no'", "true or false, without"),
        ("fast: 1", "1:7", "'fast' must be true or false, not 1", "write true or false"),
        ("name: 3", "1:7", "'name' must be text, not 3", "in quotes"),
        ("name: ''", "1:7", "'name' is empty", "write something"),
        ("name: abcdefghi", "1:7", "'name' must have at most 8 characters", "at most 8"),
        ("name: ABC", "1:7", "'name' cannot be 'ABC'", "^[a-z]*$"),
        ("sizes: 3", "1:8", "'sizes' must be a list, not 3", "[first, second]"),
        ("sizes: [1, x]", "1:12", "'sizes[1]' must be a whole number, not 'x'", "whole number"),
        ("layers: []", "1:9", "'layers' is empty", "write something"),
        ("layers: [1, 2, 3, 4]", "1:9", "'layers' must have at most 3 entries", "at most 3"),
        ("colour: bleu", "1:9", "'colour' cannot be 'bleu'", "did you mean 'blue'? use 'red' or"),
        ("sort: smal", "1:7", "'sort' cannot be 'smal'", "did you mean 'small'?"),
        ("sort: 3", "1:7", "'sort' cannot be 3", "use 'small' or 'large'"),
        ("memory: 80 GiB", "1:9", "'memory' must be a mapping, not '80 GiB'", "indented below"),
        ("memory: {value: 1}", "1:9", "'memory' has no 'source'", "add 'source:'"),
        (
            "memory: {value: [1], source: s}",
            "1:17",
            "'memory.value' must be text or a number, not a list",
            "write text or a number",
        ),
        (
            "cores: 1\nmemry: {value: 1, source: s}",
            "2:1",
            "'memry' is not a known key of the document",
            "did you mean 'memory'? known keys: name, cores, watts",
        ),
        (
            "memory:\n  value: 1\n  sorce: s",
            "3:3",
            "'sorce' is not a known key of 'memory'",
            "did you mean 'source'? known keys: value, source, where, note, date",
        ),
        (
            "figures: {a: 1, b: {value: 1, source: s, notes: x}}",
            "1:42",
            "'notes' is not a known key of 'figures.b'",
            "did you mean 'note'?",
        ),
        (
            "figures: {a: 1, b: x}",
            "1:20",
            "'figures.b' must be a mapping or a whole number, not 'x'",
            "write a mapping or a whole number",
        ),
        ("link: {kind: wyre}", "1:14", "'link.kind' cannot be 'wyre'", "did you mean 'wire'?"),
        ("link: {channel: 1}", "1:7", "'link' has no 'kind'", "add 'kind:'"),
        (
            "link: {kind: radio, channel: 14}",
            "1:30",
            "'link.channel' must be at most 13, not 14",
            "write a number at most 13",
        ),
        (
            "link: {kind: radio, chanel: 1}",
            "1:21",
            "'chanel' is not a known key of 'link'",
            "did you mean 'channel'? known keys: kind, channel",
        ),
        ("watts: 7", "1:8", "'watts': seven watts are unlucky", "change it"),
        ("cores: 1\nsort: large", "1:1", "the document: a large machine needs more", "change it"),
        ("[1]", "1:1", "the document must be a mapping, not a list", "key: value"),
        ("just text", "1:1", "the document must be a mapping, not 'just text'", "key: value"),
        ("null", "1:1", "the document must be a mapping, not nothing", ""),
    ],
)
def test_a_refusal_names_its_place_its_reason_and_a_way_out(
    text: str, place: str, message: str, hint: str
) -> None:
    error = refusal(text)
    assert error.where == f"f.yaml:{place}"
    assert error.message.startswith(message)
    assert hint in error.hint
    assert "more problem" not in error.hint


def test_a_missing_key_is_located_at_the_mapping_that_lacks_it() -> None:
    error = refusal("name: a\nmachine:\n  link:\n    kind: wire\ntitle: b", Needy)
    assert error.where == "f.yaml:4:5"
    assert error.message == "'machine.link' has no 'rate'"


def test_the_first_problem_in_the_document_is_told_and_the_others_counted() -> None:
    error = refusal("sizes: [1, x, y]\nfast: 1\ncores: a\n")
    assert error.where == "f.yaml:1:12"
    assert error.hint.endswith("(3 more problems in this file)")
    assert refusal("fast: 1\ncores: a").hint.endswith("(one more problem in this file)")


def test_a_misspelt_key_is_not_also_told_as_missing() -> None:
    error = refusal("nam: a\nmachine: {}\ntitle: b", Needy)
    assert error.where == "f.yaml:1:1"
    assert error.message == "'nam' is not a known key of the document"
    assert "more problem" not in error.hint


def test_a_union_is_told_by_the_branch_that_was_meant() -> None:
    error = refusal("links: [{kind: radio, channel: 0}]")
    assert error.where == "f.yaml:1:32"
    assert "at least 1" in error.message
    error = refusal("links: [{kind: radio, channel: 1, x: 0}]")
    assert error.message == "'x' is not a known key of 'links[0]'"
    assert error.hint == "known keys: kind, channel"


def test_keys_of_a_mapping_can_be_wrong() -> None:
    class Named(RootModel[dict[Literal["a", "b"], int]]):
        pass

    with pytest.raises(DocumentError) as caught:
        validate(Named, parse_yaml("a: 1\nc: 2", "f"))
    assert caught.value.where == "f:2:1"
    assert "'c'" in caught.value.message


def test_our_own_errors_in_a_validator_are_located() -> None:
    class Rate(Strict):
        rate: str

        @field_validator("rate")
        @classmethod
        def _known(cls, value: str) -> str:
            raise QuantityError(f"{value!r} is not in B/s", hint="write '1 GB/s'")

    with pytest.raises(DocumentError) as caught:
        validate(Rate, parse_yaml("\nrate: x", "f"))
    assert caught.value.where == "f:2:1"
    assert caught.value.hint == "write '1 GB/s'"


@pytest.mark.parametrize(
    "key", ["x" * 100_000, "\u202e", "{0}", "%s", "[red]", "a.b", "str", "[key]"]
)
def test_strange_keys_are_named_and_do_no_harm(key: str) -> None:
    for text in (json.dumps({key: 1}), json.dumps({"memory": {key: {key: 1}}})):
        with pytest.raises(DocumentError) as caught:
            validate(Machine, parse_json(text, "f"))
        assert len(caught.value.told) < 200
        assert "not a known key" in caught.value.message or "has no" in caught.value.message


@pytest.mark.slow
def test_a_document_with_very_many_problems_is_refused_like_any_other() -> None:
    class Machines(RootModel[list[Machine]]):
        pass

    document = parse_yaml("- {cores: a, b: 1}\n" * 15_000, "f")
    with pytest.raises(DocumentError) as caught:
        validate(Machines, document)
    assert caught.value.where == "f:1:11"
    assert "more problems" in caught.value.hint


def test_a_document_made_in_memory_can_be_validated() -> None:
    assert validate(Machine, Document({"cores": 2}, "made")).cores == 2
    with pytest.raises(DocumentError, match="made:1:1"):
        validate(Machine, Document({"cores": "2"}, "made"))


@pytest.mark.slow
@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**63), 10**63))
def test_a_number_reaches_the_model_to_the_last_bit(number: float) -> None:
    figure = validate(SourcedFigure, parse_json(f'{{"value": {number!r}, "source": "s"}}', "f"))
    assert figure.value == number
    assert type(figure.value) is type(number)


names = st.sampled_from(
    ["name", "cores", "watts", "memory", "value", "source", "link", "kind", "x"]
)
letters = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=5)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | letters | st.sampled_from(["wire", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=15,
)


@pytest.mark.slow
@given(st.dictionaries(names, anything))
def test_whatever_is_refused_is_located_inside_the_document(data: dict[str, object]) -> None:
    text = json.dumps(data, indent=1)
    document = parse_json(text, "f")
    try:
        validate(Machine, document)
    except DocumentError as error:
        _, line, column = error.where.rsplit(":", 2)
        assert text.split("\n")[int(line) - 1][int(column) - 1 :]
