"""Questions: records of parameters, and the functions of Python that are made from them.

Nothing heavy is imported here, so that help stays light.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import NoneType
from typing import (
    Any,
    Final,
    Literal,
    ParamSpec,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Struct

from roofline.errors import InputError, not_one_of

P = ParamSpec("P")
Answer = TypeVar("Answer")

RAISES: Final = "\n\nRaises:\n    RooflineError: Anything the user can mend."
REQUIRED: Final = inspect.Parameter.empty


class Parameter(Struct, frozen=True):
    """A parameter of a question.

    Attributes:
        help, text: Meaning on the command line; in Python, where it is worded otherwise.
        default, factory: Value where none is given, `REQUIRED` where one must be; its maker.
        unit: Such as ``"token"``.
        called: Name on the command line, where it is another.
        usual, kind: Default and type on the command line, where they are others.
        metavar, show_default: Value and default as the help shows them.
        completes: Function of `roofline.cli.completing` that completes it.
        argument, kw_only: True if the command line gives it by place; if Python gives it by name.
        least: Least number.
    """

    help: str
    default: Any = REQUIRED
    unit: str = ""
    text: str = ""
    called: str = ""
    usual: Any = REQUIRED
    kind: Any = None
    metavar: str | None = None
    show_default: bool | str = True
    completes: str = ""
    argument: bool = False
    least: float | None = None
    kw_only: bool = True
    factory: Callable[[], Any] | None = None

    @property
    def value(self) -> Any:
        """Value where none is given."""
        return self.default if self.factory is None else self.factory()


def parameter(help_: str, **others: Any) -> Any:
    """A parameter as the value of an attribute: see `Parameter`."""
    return Parameter(help_, **others)


def network(
    help_: str = "Catalog name, hub id, config.json, its folder, or a GGUF file; - for stdin.",
    *,
    text: str = "Catalog name, hub id, a ``config.json`` or its folder, or an architecture.",
    **others: Any,
) -> Any:
    """The network of a question, which a command line gives by place."""
    return Parameter(help_, text=text, completes="models", argument=True, **others)


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(parameter, network)
)
class Question:
    """Values of the parameters of a question, which its subclasses list."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def parameters_of(record: type[Question]) -> dict[str, tuple[str, Parameter]]:
    """Annotation and meaning of each parameter by name, those of the question alone last."""
    kinds = {part: inspect.get_annotations(part) for part in record.__mro__}
    names = dict.fromkeys(name for part in (*record.__mro__[1:], record) for name in kinds[part])
    owners = {name: next(part for part, own in kinds.items() if name in own) for name in names}
    return {name: (kinds[owner][name], vars(owner)[name]) for name, owner in owners.items()}


def shared(question: Question, kind: Any) -> dict[str, Any]:
    """Parameters of a question that a record has too, by name."""
    values = vars(question)
    return {name: values[name] for name in kind.__struct_fields__ if name in values}


def refuse_unused(question: str, given: Mapping[str, bool]) -> None:
    """Refuse options that are given and would change nothing, by name, with an InputError."""
    unused = [option for option, there in given.items() if there]
    if unused:
        raise InputError(
            f"{question} does not take {', '.join(unused)}",
            hint="leave out what would change nothing, or ask without it",
        )


Q = TypeVar("Q", bound=Question)


def question(
    record: Callable[P, Q], **others: Any
) -> Callable[[Callable[[Q], Answer]], Callable[P, Answer]]:
    """Decorator that gives a function of a record the record's parameters for its own.

    Args:
        record: Kind of question. The section of the parameters in the docstring is made from it;
            that of the errors is the same for all questions but those that have their own.
        others: Types that only this question names, by name.
    """
    from roofline.cost.moe import Routing
    from roofline.hardware.machine import Gpu, Node
    from roofline.model.architecture import Architecture

    kind: Any = record
    known = {name: each for name, (_, each) in parameters_of(kind).items()}
    types: dict[str, Any] = {
        "Architecture": Architecture,
        "Callable": Callable,
        "Gpu": Gpu,
        "Mapping": Mapping,
        "Node": Node,
        "Routing": Routing,
        "Sequence": Sequence,
    }
    hints = get_type_hints(kind, localns=types | others)
    closed = {name: words for name, hint in hints.items() if (words := _words(hint))}
    several = [name for name, hint in hints.items() if hint == Sequence[str]]
    place = {True: inspect.Parameter.KEYWORD_ONLY, False: inspect.Parameter.POSITIONAL_OR_KEYWORD}
    taken = [
        inspect.Parameter(name, place[each.kw_only], default=each.value, annotation=hints[name])
        for name, each in known.items()
    ]
    signature = inspect.Signature(sorted(taken, key=lambda each: each.kind))

    def decorate(answer: Callable[[Q], Answer]) -> Callable[P, Answer]:
        @wraps(answer)
        def ask(*given: P.args, **named: P.kwargs) -> Answer:
            values = signature.bind(*given, **named)
            values.apply_defaults()
            for name in several:  # one text by itself is not its letters
                if isinstance(values.arguments[name], str):
                    values.arguments[name] = (values.arguments[name],)
            for name, words in closed.items():
                if values.arguments[name] not in words:
                    raise not_one_of(name, values.arguments[name], filter(None, words))
            return answer(kind(**values.arguments))

        made: Any = ask
        del made.__wrapped__  # whose signature and docstring are not those of the question
        returned = get_type_hints(answer)["return"]
        made.__annotations__ = {**hints, "return": returned}
        made.__signature__ = signature.replace(return_annotation=returned)
        meaning, _, results = inspect.cleandoc(answer.__doc__ or "").partition("\n\nReturns:\n")
        section = "\n".join(
            f"    {name}: {_told(known[name], hints[name])}" for name in signature.parameters
        )
        if "\nRaises:\n" not in results:
            results += RAISES
        made.__doc__ = f"{meaning}\n\nArgs:\n{section}\n\nReturns:\n{results}"
        return ask

    return decorate


def _words(kind: Any) -> tuple[str | None, ...]:
    """Values of a parameter that is one of some words; none where it may be anything else."""
    kinds = [kind] if get_origin(kind) is Literal else get_args(kind)
    if not all(each is NoneType or get_origin(each) is Literal for each in kinds):
        return ()
    return tuple(word for each in kinds for word in get_args(each) or (None,))


def _told(parameter: Parameter, kind: Any) -> str:
    """Meaning of a parameter in Python, with the words that it may be and its unit."""
    told = parameter.text or parameter.help
    if words := [word for word in _words(kind) if word]:
        told += f" One of {', '.join(f'``{word}``' for word in words)}."
    return f"{told} [{parameter.unit}]" if parameter.unit else told
