"""Options of commands, made from the parameters of their questions."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin, get_type_hints

import typer

from roofline.api import parameters
from roofline.api.question import REQUIRED, Parameter, Question, parameters_of
from roofline.cli import completing
from roofline.cli.flags import aliases_of, flags, spelled
from roofline.cli.render import OutputFormat

SPLIT: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "routing": {
        "routing_skew": (
            Annotated[
                float,
                typer.Option(help="Power law of how tokens spread over experts; 0 is uniform."),
            ],
            0.0,
        ),
        "expert_loads": (
            Annotated[
                Path | None,
                typer.Option(help="YAML or JSON file with loads: [share of each expert]."),
            ],
            None,
        ),
        "redundant_experts": (
            Annotated[
                int,
                typer.Option(
                    help="Further copies of the most loaded experts, balanced over the groups."
                ),
            ],
            0,
        ),
    },
    "rank": {
        "static": (
            Annotated[
                bool,
                typer.Option("--static", help="Show batches whose prompts all arrive at once."),
            ],
            False,
        )
    },
}
"""Options, with their defaults, that stand for a parameter whose value no word names."""


def _described(
    parameter: Parameter, name: str = "", kind: Any = None, others: Iterable[str] = ()
) -> Any:
    """Option, or argument, as Typer describes it.

    Args:
        parameter: What is asked.
        name, kind: Name and type of the parameter; empty where Typer tells them.
        others: Names of all parameters of the question.
    """
    shown: dict[str, Any] = {
        "help": flags(parameter.help),
        "metavar": parameter.metavar,
        "show_default": parameter.show_default,
    }
    if parameter.completes:
        shown["autocompletion"] = getattr(completing, parameter.completes)
    if parameter.least is not None:
        shown["min"] = parameter.least
    if parameter.argument:
        return typer.Argument(**shown)
    names = [spelled(name, parameter, kind), *aliases_of(name, others)] if name else []
    return typer.Option(*names, **shown)


def _same(record: type[Question], name: str) -> Any:
    """Option of a question's parameter, for another command to take."""
    return _described(parameters_of(record)[name][1])


Model: TypeAlias = Annotated[str, _same(parameters.Subject, "model")]
Gpu: TypeAlias = Annotated[str | None, _same(parameters.Subject, "gpu")]
Node: TypeAlias = Annotated[str | None, _same(parameters.NodeOptions, "node")]
Engine: TypeAlias = Annotated[str, _same(parameters.EngineOptions, "engine")]
Report: TypeAlias = Annotated[Path | None, typer.Option(help="Write an HTML report here.")]
FormatOf: TypeAlias = Annotated[OutputFormat, typer.Option("--format", help="How to print.")]

_TYPES: Final = {
    **vars(parameters),
    **dict.fromkeys(("Architecture", "Gpu", "Node", "Path", "Lengths", "Traffic"), str),
    "Callable": Callable,
    "Mapping": Mapping,
    "Routing": str,
    "Sequence": Sequence,
}
"""Types of parameters on a command line, where objects are named by text."""


IN_PYTHON: Final = ("progress", "with_requests")
"""Parameters that no command has an option for."""


_TAKEN: Final[dict[Callable[..., None], tuple[type[Question], str, bool]]] = {}
"""Questions of commands, what is derived, and whether there is a page."""


def takes(
    record: type[Question], derives: str = "", *, pages: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator of a command that has the options of a question beside its own.

    Args:
        record: What is asked.
        derives: What ``--explain`` derives; empty for a command without it.
        pages: Whether ``--report`` writes a page.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _TAKEN[command] = record, derives, pages
        return command

    return decorate


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with all that it `takes`; to make options takes longer than to run most commands.

    `roofline.cli.help.GROUPS` has their order in the help.
    """
    if command not in _TAKEN:
        return command
    record, derives, pages = _TAKEN[command]
    own = inspect.signature(command).parameters
    hints = get_type_hints(command, include_extras=True)
    told = typer.Option(help=f"Derive {derives}.")
    taken = {
        "context": (typer.Context, inspect.Parameter.empty),
        **_options(record),
        **({"explain": (Annotated[str | None, told], None)} if derives else {}),
        **({"report": (Report, None)} if pages else {}),
        **{name: (hints[name], own[name].default) for name in own},
        "format_": (FormatOf, OutputFormat.TABLE),
    }

    def run(**given: Any) -> None:
        command(**{name: given[name] for name in own})

    made: Any = run
    made.__name__, made.__doc__ = command.__name__, command.__doc__
    made.__annotations__ = {name: hint for name, (hint, _) in taken.items()}
    made.__signature__ = inspect.Signature(
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
            )
            for name, (hint, default) in taken.items()
        ]
    )
    return run


def _options(record: type[Question]) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of the options of a question, by their name."""
    hints = get_type_hints(record, _TYPES)
    options: dict[str, tuple[Any, Any]] = {}
    known = parameters_of(record)
    for name, (_, parameter) in known.items():
        if name in SPLIT:
            options |= SPLIT[name]
        elif name not in IN_PYTHON:
            options[parameter.called or name] = _option(name, parameter, hints[name], known)
    return options


def _option(name: str, parameter: Parameter, hint: Any, others: Iterable[str]) -> tuple[Any, Any]:
    kind = _kind(name, parameter.kind or hint)
    usual = parameter.default if parameter.usual is REQUIRED else parameter.usual
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        usual = kind(usual)
    return Annotated[kind, _described(parameter, name, hint, others)], usual


def _kind(name: str, hint: Any) -> Any:
    """Type of an option: of the types that a parameter may have, the one that text can be."""
    kinds = get_args(hint) or (hint,)
    if all(isinstance(word, str) for word in kinds):
        return StrEnum(name, {word.upper(): word for word in kinds})
    kind = next((each for each in kinds if get_origin(each) is Sequence), None)
    if kind is not None:
        return list[get_args(kind)[0]] | None  # type: ignore[misc]  # made at run time, for Typer
    if get_origin(hint) is Sequence:
        return list[str] | None
    if str in kinds:
        return str | None if NoneType in kinds else str
    words = next((each for each in kinds if get_args(each)), None)
    if words is not None:
        return _kind(name, words) | None
    return hint
