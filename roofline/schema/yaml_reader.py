"""YAML with few surprises: 1.2 core scalars, and nothing that is not plain data.

PyYAML scans and parses; values are made here, since its own constructor follows YAML 1.1, where
``no`` is false, ``010`` is 8, ``1:30:00`` is 5400 and ``1e9`` is text.
"""

import math
import re
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

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

# https://yaml.org/spec/1.2.2/ section 10.3.2, "Tag Resolution" of the core schema.
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# The group is empty for an integer.
_DECIMAL: Final = re.compile(
    r"[-+]?(?:[0-9]++((?:\.[0-9]*+)?(?:[eE][-+]?[0-9]++)?)|\.[0-9]++(?:[eE][-+]?[0-9]++)?)"
)
_OCTAL: Final = re.compile(r"0o[0-7]++")
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]++")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# Line ends in YAML 1.1 but not in 1.2, and a byte order mark that is not at the start.
_AMBIGUOUS: Final = re.compile("[\u2028\u2029\ufeff\ufffe\uffff]")
_DIRECTIVE: Final = re.compile(r"(?:\A|[\n\r])(?=%)")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_HINTS: Final = (
    ("mapping values are not allowed", "quote the text that has ': ' in it, or indent the line"),
    ("cannot start any token", "indent with spaces, and quote text that starts with @, ` or %"),
    ("could not find expected ':'", "write 'key: value', with a space after the colon"),
    ("did not find expected ',' or", "close the bracket, or put a comma between the items"),
    ("did not find expected key", "indent the keys of a mapping alike, and close all quotes"),
    ("block sequence entries", "put '- ' on a line of its own, below the key"),
    ("unknown escape character", "double the backslash, or use single quotes"),
    ("end of stream", "close the quote that is still open"),
)


def parse_yaml(text: str, source: str) -> Document:
    """Read a YAML text.

    Scalars follow the YAML 1.2 core schema: ``1e9`` is a number; ``no``, ``on``, ``1:30:00`` and
    dates are text; ``010`` is ten. Tags, anchors, aliases, merge keys, directives, further
    documents, duplicate keys, keys that are not text, and numbers that are not finite are refused.

    Args:
        text: At most 1 MiB, 32 levels, 100,000 keys and values, 64 digits per number.
        source: Path, as shown to the user.

    Raises:
        DocumentError: At the place that is refused.

    Examples:
        >>> parse_yaml("{rate: 1e9, country: no, version: '1.0'}", "x.yaml").data
        {'rate': 1000000000.0, 'country': 'no', 'version': '1.0'}
    """
    content = admit(text, source)
    if found := _AMBIGUOUS.search(content.content):
        code = f"{ord(found.group()):04X}"
        hint = f'remove it, or write it as "\\u{code}" in double quotes'
        raise content.error(found.start(), f"the character U+{code} is not allowed here", hint)
    # libyaml needs seconds for many %TAG lines, before it reports the first event.
    if found := _DIRECTIVE.search(content.content):
        hint = "remove the line that starts with %"
        raise content.error(found.end(), "YAML directives are not read", hint)
    try:
        with collector_paused():
            return _compose(content)
    except yaml.MarkedYAMLError as error:
        raise _syntax(content, error) from None
    except yaml.YAMLError as error:
        raise content.error(0, f"not valid YAML: {error}", "save it as plain UTF-8 text") from None


def _compose(text: Text) -> Document:
    """Make values of the parser's events."""
    builder = Builder(text)
    next_event = _LOADER(text.content).get_event
    documents = 0
    empty = True
    while (event := next_event()) is not None:
        kind = type(event)
        if kind is MappingEndEvent or kind is SequenceEndEvent:
            builder.close()
            continue
        at = event.start_mark.index
        if kind is ScalarEvent:
            if event.tag or event.anchor:
                raise _property(text, event, at)
            written = event.value
            if not event.style:
                value = _plain(text, written, at)
            else:
                if event.style == '"':
                    check_decoded(text, at, written)
                value = written
            if builder.wants_key:
                if type(value) is not str or (value == "<<" and not event.style):
                    raise _key_error(text, written, at)
                builder.add_key(value, at)
            else:
                builder.add(value, at)
                empty = empty and not (written or event.style)
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            if event.tag or event.anchor:
                raise _property(text, event, at)
            if builder.wants_key:
                message = "a list or mapping is used as a key"
                raise text.error(at, message, "use text as the key")
            builder.open(at, mapping=kind is MappingStartEvent)
            empty = False
        elif kind is AliasEvent:
            message = f"aliases ({shown('*' + event.anchor)}) are not read"
            raise text.error(at, message, "write the value out here")
        elif kind is DocumentStartEvent:
            documents += 1
            if documents > 1:
                message = "a second document starts here"
                raise text.error(at, message, "keep one document per file")
    if empty:
        raise text.error(0, "the document is empty", "write 'key: value' lines into it")
    return builder.document()


def _plain(text: Text, written: str, at: int) -> str | int | float | bool | None:
    """Value of a scalar without quotes."""
    if written in _WORDS:
        return _WORDS[written]
    if written[0] not in "+-.0123456789":
        return written
    if found := _DECIMAL.fullmatch(written):
        check_digits(text, at, written)
        if found[1] == "":
            return int(written)
        number = float(written)
        if not math.isfinite(number):
            raise not_finite(text, at, written)
        return number
    for pattern, base in ((_OCTAL, 8), (_HEXADECIMAL, 16)):
        if pattern.fullmatch(written):
            check_digits(text, at, written, base)
            return int(written[2:], base)
    if _NOT_FINITE.fullmatch(written):
        raise not_finite(text, at, written)
    return written


def _key_error(text: Text, written: str, at: int) -> DocumentError:
    if not written:
        return text.error(at, "the key is empty", "write the key before the colon")
    if written == "<<":
        return text.error(at, "merge keys (<<) are not read", "write the values out here")
    return text.error(at, f"the key {written} is not text", f"quote it: '{written}'")


def _property(text: Text, event: Any, at: int) -> DocumentError:
    if event.anchor:
        message = f"anchors ({shown('&' + event.anchor)}) are not read"
        return text.error(at, message, "remove it, and write the value out where it is needed")
    written = shown(text.content[at:].split(None, 1)[0])
    hint = "remove it; text in quotes is text, numbers without quotes are numbers"
    return text.error(at, f"tags ({written}) are not read", hint)


def _syntax(text: Text, error: yaml.MarkedYAMLError) -> DocumentError:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "it cannot be parsed"
    hint = next((hint for part, hint in _HINTS if part in problem), "")
    offset = min(mark.index, len(text.content)) if mark else 0
    context = f" {error.context}" if error.context and error.context != problem else ""
    return text.error(
        offset,
        f"not valid YAML: {problem}{context}",
        hint or "check the indentation, the quotes and the colons around this place",
    )
