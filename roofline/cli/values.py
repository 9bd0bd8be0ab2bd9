"""Values of options that need no converter: those left at their defaults, and plain ones.

Typer has pydantic make a converter for each option, used or not, which takes longer than to
compute most answers.
"""

import re
from enum import EnumType
from functools import partial
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

NUMBERS: Final = {
    int: re.compile(r"0|-?[1-9][0-9]{0,14}"),
    float: re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?"),
}
"""How numbers are usually written; other spellings are left to the converter."""


def take_plain(command: Any) -> None:
    """Have the options of a command, and of those below it, take plain values as they are.

    Options that are needed, bounded or take several values are left as Typer makes them.
    """
    for below in getattr(command, "commands", {}).values():
        take_plain(below)
    command.get_params = partial(_options, command, command.get_params)


def _options(command: Any, options: Any, context: Any) -> list[Any]:
    """Options of a command, among them the one for help, which is made when it is asked for."""
    found: list[Any] = options(context)
    if new := [each for each in found if "process_value" not in vars(each)]:
        function = getattr(command.callback, "__wrapped__", None)
        hints = get_type_hints(function, include_extras=True) if function else {}
        for each in new:
            _take_plain(each, hints.get(each.name, Any))
    return found


def _take_plain(option: Any, hint: Any) -> None:
    (info,) = getattr(hint, "__metadata__", (None,))
    bounded = any(getattr(info, name, None) is not None for name in ("min", "max", "parser"))
    several = option.nargs != 1 or getattr(option, "multiple", False)
    kind = getattr(hint, "__origin__", hint)
    kinds = [each for each in get_args(kind) or (kind,) if each is not NoneType]
    convert = option.process_value
    as_made = option.required or bounded or several
    option.process_value = convert if as_made else partial(_process, option, convert, kinds[0])


def _process(option: Any, convert: Any, kind: Any, context: Any, value: Any) -> Any:
    """Value of an option as its command takes it, passed through its callback."""
    plain = value is None or (type(value) is kind and kind is not str)
    if type(value) is str and value.isascii():
        values = [each.value for each in list(kind)] if isinstance(kind, EnumType) else ()
        if value in values or (kind in NUMBERS and NUMBERS[kind].fullmatch(value)):
            value, plain = kind(value), True
        plain = plain or kind is str
    if not plain:
        return convert(context, value)
    return option.callback(context, option, value) if option.callback else value
