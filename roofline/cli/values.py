"""Options that take a plain value, or their default, as it is.

Typer has pydantic make a converter for each option of a command, which takes longer than to
compute most answers.
"""

import re
from decimal import Decimal
from enum import EnumType
from functools import partial
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

import typer

from roofline.cli.usage import not_taken
from roofline.units import written_out

NUMBERS: Final = {
    int: re.compile(r"0|-?[1-9][0-9]{0,14}"),
    float: re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?"),
}
"""Usual spellings of numbers; other spellings are left to the converter."""
GROUPED: Final = re.compile(r"-?[1-9][0-9]{0,2}(,[0-9]{3}){1,4}")
"""Whole numbers as answers show them."""
TIMES_TEN: Final = re.compile(r"[1-9](\.[0-9]{1,9})?[eE]\+?[0-9]{1,2}")
"""Whole numbers, if they are, with an exponent."""


def take_plain(command: Any) -> None:
    """Have the options of a command of Typer's, and of those below it, take plain values."""
    for below in getattr(command, "commands", {}).values():
        take_plain(below)
    command.get_params = partial(_options, command, command.get_params)


def _options(command: Any, options: Any, context: Any) -> list[Any]:
    """Options of a command, also the one for help, which is made when it is asked for."""
    found: list[Any] = options(context)
    if new := [each for each in found if "process_value" not in vars(each)]:
        function = getattr(command.callback, "__wrapped__", None)
        hints = get_type_hints(function, include_extras=True) if function else {}
        for each in new:
            hint = hints.get(each.name, Any)
            (info,) = getattr(hint, "__metadata__", (None,))
            kind = getattr(hint, "__origin__", hint)
            kinds = [one for one in get_args(kind) or (kind,) if one is not NoneType]
            bounded = any(getattr(info, name, None) is not None for name in ("min", "max"))
            convert = each.process_value
            convert = partial(_converted, each, convert, kinds[0])
            if each.nargs == 1 and getattr(info, "parser", None) is None:
                several = getattr(each, "multiple", False)
                process = _process_several if several else partial(_process, bounded=bounded)
                convert = partial(process, each, convert, kinds[0])
            each.process_value = convert
    return found


def _converted(option: Any, convert: Any, kind: Any, context: Any, value: Any) -> Any:
    """Value of an option by Typer's converter; what it does not take is told in our words."""
    try:
        return convert(context, value)
    except typer.BadParameter as error:
        if value is None:  # what is missing is told by its name
            raise
        kind, said = next(iter(get_args(kind)), kind), error.message.removeprefix("Value error, ")
    raise not_taken(option, kind, value, said, context)


def _process(
    option: Any, convert: Any, kind: Any, context: Any, value: Any, *, bounded: bool
) -> Any:
    """Value of an option as its command takes it, passed through its callback."""
    if type(value) is str and kind in NUMBERS:
        digits = plain_number(value, kind)
        value = digits if NUMBERS[kind].fullmatch(digits) else value  # else told as it was typed
    plain = (value is None and not option.required) or (type(value) is kind and kind is not str)
    if type(value) is str and value.isascii() and not bounded:
        members: Any = kind if isinstance(kind, EnumType) else ()
        listed = any(member.value == value for member in members)
        if listed or (kind in NUMBERS and NUMBERS[kind].fullmatch(value)):
            value, plain = kind(value), True
        plain = plain or kind is str
    if not plain:
        return convert(context, value)
    return option.callback(context, option, value) if option.callback else value


def _process_several(option: Any, convert: Any, kind: Any, context: Any, value: Any) -> Any:
    """Values of an option that may be repeated, as its command takes them: none, or words."""
    missing = value is None and not option.required
    words = kind == list[str] and value and all(each.isascii() for each in value)
    if option.callback or not (missing or words):
        return convert(context, value)
    return () if missing else list(value)


def plain_number(text: str, kind: type) -> str:
    """Number as people write it, in digits; other text as it is.

    >>> plain_number("32k", int), plain_number("131,072", int), plain_number("1e6", int)
    ('32000', '131072', '1000000')
    >>> plain_number("0,5", float), plain_number("1e-3", int), plain_number("x", int)
    ('0,5', '1e-3', 'x')
    """
    text = written_out(text)
    if kind is int and GROUPED.fullmatch(text):
        return text.replace(",", "")
    if kind is int and TIMES_TEN.fullmatch(text):
        return f"{Decimal(text):f}"
    return text
