"""Mistakes in a command line, told in the words of the project."""

import re
from collections.abc import Sequence
from typing import Any, Final

from roofline.errors import InputError, did_you_mean

ELSEWHERE: Final = {
    "--csv": "--format csv prints it",
    "--gpu-type": "--gpu NAME takes it",
    "--json": "--format json prints it",
    "--md": "--format md prints it",
    "--model": "write the network without a name for it: roofline {command} MODEL",
    "--model-path": "write the network without a name for it: roofline {command} MODEL",
    "--num-gpus": "--gpus N takes it",
    "--verbose": "--explain METRIC derives a figure",
    "-m": "write the network without a name for it: roofline {command} MODEL",
    "-o": "--out PATH or --report PATH writes a file",
    "-v": "roofline --version prints the version",
}
"""Options that other tools have, by name, and what does the same here."""
SHOWN: Final = 8
"""Choices that are told all; of more only the one that is most alike. [1]"""
_BOUND: Final = re.compile(r"(greater|less) than( or equal to)? (\S+)$")
_HOW: Final = {
    int: "write it like 4096, 4k (4,000) or 4K (4,096)",
    float: "write it like 0.9 or 12.5",
}
"""Spellings of numbers by their kind."""
WORDS: Final = {int: "a whole number", float: "a number"}
"""Names of the kinds of numbers."""


def name_typed(option: Any, arguments: Sequence[str] | None) -> str:
    """Name of an option as it was typed, which has several; its first where that is not known."""
    typed = [word.partition("=")[0] for word in arguments or ()]
    return str(next((name for name in option.opts if name in typed), option.opts[0]))


def not_taken(option: Any, kind: Any, value: Any, said: str, context: Any) -> InputError:
    """Error of a value that an option does not take.

    Args:
        option: Option, or argument, of Typer's.
        kind: Type of its value.
        value: Value as it was typed; several of an option that may be repeated.
        said: Reason of the converter, which is told only where no words of ours fit.
        context: Context of the command, with all that was typed.
    """
    name = name_typed(option, context.obj if isinstance(context.obj, list) else None)
    given = value if isinstance(value, str) else ", ".join(map(str, value))
    begun, more = f"{name} {given!r:.40}", f"{context.command_path} --help lists what it takes"
    if choices := [str(each.value) for each in getattr(kind, "__members__", {}).values()]:
        every = f"it is one of {', '.join(choices)}" if len(choices) <= SHOWN else more
        close = did_you_mean(given.lower(), choices)
        return InputError(f"{begun} is none of its values", hint=close + every)
    if found := _BOUND.search(said):
        side, equal, bound = found.groups()
        words = f"{'from' if side == 'greater' else 'up to'} {bound}"
        words = words if equal else f"{'above' if side == 'greater' else 'below'} {bound}"
        return InputError(f"{begun} is out of range", hint=f"give a number {words}")
    if kind in WORDS:
        share = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", given) if kind is float else None
        whole = share is not None and float(share[1]) > 100  # of most shares too much
        how = f"write {float(share[1]) / 100:g}" if share and not whole else _HOW[kind]
        return InputError(f"{begun} is not {WORDS[kind]}", hint=how)
    return InputError(f"{begun}: {said}", hint=more)


def told(error: Any, arguments: Sequence[str]) -> tuple[str, str]:
    """Message and hint of a mistake that the parser of the command line found.

    Args:
        error: Exception of Typer's copy of Click.
        arguments: Command line, without the name of the program.
    """
    context = getattr(error, "ctx", None)
    command = " ".join(word for word in arguments[:1] if not word.startswith("-"))
    path = context.command_path if context is not None else f"roofline {command}".strip()
    more = f"{path} --help lists what it takes"
    kind = type(error).__name__
    if kind == "NoSuchOption":
        name = error.option_name
        if name in ELSEWHERE:
            return f"there is no option {name}", ELSEWHERE[name].format(command=command)
        known = [each for param in _params(context) for each in param.opts]
        return f"there is no option {name:.60}", did_you_mean(name, known) + more
    if kind == "BadOptionUsage":
        if "requires" in error.message:
            return f"{error.option_name} has no value", f"write one behind it; {more}"
        return f"{error.option_name} takes no value", f"leave out what is behind the =; {more}"
    if kind == "MissingParameter":
        option = error.param.param_type_name == "option"
        return f"{path} needs {error.param.opts[0] if option else error.param.name.upper()}", more
    if kind == "UsageError" and (found := re.search(r"argument\S* \((.*)\)", error.message)):
        return f"{found[1]!r:.60} is one word too many for {path}", more
    if kind == "UsageError" and (found := re.match(r"No such command '(.*?)'", error.message)):
        group = getattr(context, "command", None)
        names = list(getattr(group, "commands", ()))
        shown = "show" in names and context is not None and not did_you_mean(found[1], names)
        hint = f"write {path} show {found[1]:.60}; " if shown else did_you_mean(found[1], names)
        return f"there is no command {found[1]!r:.60}", f"{hint}{path} --help lists them"
    return error.format_message().rstrip("."), more


def _params(context: Any) -> list[Any]:
    return [] if context is None else list(context.command.get_params(context))
