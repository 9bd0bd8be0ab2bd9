"""JSON as RFC 8259 has it, with the place of every value."""

import math
import re
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

from roofline.errors import DocumentError
from roofline.schema.document import (
    Builder,
    Document,
    Text,
    admit,
    check_decoded,
    check_digits,
    collector_paused,
    not_finite,
    shown,
)

_SPACE: Final[Any] = re.compile(r"[ \t\n\r]*+")  # matches everywhere
_COMMA: Final = re.compile(r",[ \t\n\r]*+")
# Most keys and values are one match; the white space after them belongs to it.
_MEMBER: Final = re.compile(r'"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+')
_SCALAR: Final = re.compile(
    r'(?:"(?P<text>[^"\\\x00-\x1f]*+)"'
    r"|(?P<real>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++(?:[eE][-+]?[0-9]++)?|[eE][-+]?[0-9]++))"
    r"|(?P<whole>-?(?:0|[1-9][0-9]*+))"
    r"|(?P<word>true|false|null)\b)[ \t\n\r]*+"
)
_INFINITY: Final = re.compile(r"Infinity\b[ \t\n\r]*+")
_WORDS: Final = {"true": True, "false": False, "null": None}
_STRING: Final = JSONDecoder(strict=True)

_COMMENT: Final = (r"//|/\*|#", "JSON has no comments", "remove it, or use a .yaml file")
_QUOTE: Final = (r"'", "text is in single quotes", 'use double quotes: "text"')
_NAME: Final = (r"[^\W\d]\w*", "{} is not in quotes", 'put text and keys in double quotes: "text"')
_VALUE_MISTAKES: Final = (
    _COMMENT,
    _QUOTE,
    (r"[-+]?(?:NaN|nan|Infinity|inf)\b", "JSON has no {}", "write a finite number, or null"),
    (r"True\b|False\b|None\b", "JSON has no {}", "write true, false or null, in lower case"),
    (r"[-+.0-9]", "the number is not written as JSON wants it", "write it like 0.5, -1 or 1e9"),
    _NAME,
)
_KEY_MISTAKES: Final = (_COMMENT, _QUOTE, _NAME)
_AFTER_MISTAKES: Final = (
    _COMMENT,
    (
        r"(?<=[0-9])[.0-9eExX_]",
        "the number is not written as JSON wants it",
        "write it like 0.5, -1 or 1e9",
    ),
)
_Mistakes = tuple[tuple[str, str, str], ...]


def parse_json(text: str, source: str, *, infinity: bool = False) -> Document:
    """Read a JSON text.

    NaN and Infinity, numbers that overflow, duplicate keys and control characters are refused, the
    last also when they are written as escapes.

    Args:
        text: At most 1 MiB, 32 levels, 100,000 keys and values, 64 digits per number.
        source: Path, as shown to the user.
        infinity: Whether the word Infinity is a value, as in files that Python's ``json`` has
            written; whoever allows it has to look for it.

    Raises:
        DocumentError: At the place that is refused.

    Examples:
        >>> document = parse_json('{"hidden_size": 4096}', "config.json")
        >>> document.data, document.where("hidden_size")
        ({'hidden_size': 4096}, 'config.json:1:17')
    """
    content = admit(text, source)
    with collector_paused():
        return _compose(content, infinity)


def _compose(text: Text, infinity: bool) -> Document:
    content = text.content
    builder = Builder(text)
    space = _SPACE.match
    closing: list[str] = []  # brackets, the innermost last
    at = space(content, 0).end()
    if at == len(content):
        raise text.error(0, "the document is empty", "write a JSON object into it")
    while True:
        # A value starts here, or a key and its value.
        if builder.wants_key:
            if found := _MEMBER.match(content, at):
                builder.add_key(found[1], at)
                at = found.end()
            else:
                at = _key(text, builder, at)
        bracket = content[at : at + 1]
        if bracket == "{" or bracket == "[":
            builder.open(at, mapping=bracket == "{")
            closing.append("}" if bracket == "{" else "]")
            at = space(content, at + 1).end()
            if content[at : at + 1] != closing[-1]:
                continue
        else:
            value, end = _scalar(text, at, infinity)
            builder.add(value, at)
            at = end
        # After a value: closing brackets, then a comma or the end.
        while closing and content[at : at + 1] == closing[-1]:
            builder.close()
            closing.pop()
            at = space(content, at + 1).end()
        if not closing:
            break
        comma = _COMMA.match(content, at)
        if comma is None:
            raise _unexpected(text, at, f"',' or '{closing[-1]}'", _AFTER_MISTAKES)
        if content[comma.end() : comma.end() + 1] == closing[-1]:
            raise text.error(at, "there is a comma after the last item", "remove the comma")
        at = comma.end()
    if at != len(content):
        raise _unexpected(text, at, "the end of the document", _AFTER_MISTAKES)
    return builder.document()


def _key(text: Text, builder: Builder, at: int) -> int:
    """Take a key that has escapes or is not there; offset of its value."""
    if text.content[at : at + 1] != '"':
        raise _unexpected(text, at, "a key in double quotes", _KEY_MISTAKES)
    key, end = _string(text, at)
    builder.add_key(key, at)
    if text.content[end : end + 1] != ":":
        raise _unexpected(text, end, "':' after the key", _AFTER_MISTAKES)
    after: int = _SPACE.match(text.content, end + 1).end()
    return after


def _scalar(text: Text, at: int, infinity: bool) -> tuple[str | int | float | bool | None, int]:
    """Value, and offset of what follows it."""
    found = _SCALAR.match(text.content, at)
    if found is None:
        if text.content[at : at + 1] == '"':
            return _string(text, at)
        if infinity and (word := _INFINITY.match(text.content, at)):
            return math.inf, word.end()
        raise _unexpected(text, at, "a value", _VALUE_MISTAKES)
    kind, end = found.lastgroup, found.end()
    if kind == "text":
        return found[1], end
    if kind == "word":
        return _WORDS[found["word"]], end
    written = found["whole"] or found["real"]
    check_digits(text, at, written)
    if kind == "whole":
        return int(written), end
    number = float(written)
    if not math.isfinite(number):
        raise not_finite(text, at, written)
    return number, end


def _string(text: Text, at: int) -> tuple[str, int]:
    """Text that has escapes or is not closed, and offset of what follows it."""
    try:
        value, end = _STRING.raw_decode(text.content, at)
    except JSONDecodeError as error:
        if error.msg.startswith("Unterminated"):
            raise text.error(at, "the text is not closed", 'end it with "') from None
        if error.msg.startswith("Invalid control"):
            message, hint = "the text goes on over a line end or a tab", "write it as \\n or \\t"
        else:
            message, hint = "the escape sequence is not one of JSON's", "double the backslash"
        raise text.error(min(error.pos, len(text.content)), message, hint) from None
    check_decoded(text, at, value)
    return value, _SPACE.match(text.content, end).end()


def _unexpected(text: Text, at: int, wanted: str, mistakes: _Mistakes) -> DocumentError:
    """Say what is wrong where the grammar allows nothing that is there."""
    if at >= len(text.content):
        message = f"the document ends where {wanted} should follow"
        return text.error(at, message, "close all brackets and quotes")
    for pattern, message, hint in mistakes:
        if found := re.compile(pattern).match(text.content, at):
            return text.error(at, message.format(shown(found[0])), hint)
    return text.error(
        at,
        f"{shown(text.content[at])} is not expected here",
        f"{wanted} should follow; check quotes, commas and brackets before it",
    )
