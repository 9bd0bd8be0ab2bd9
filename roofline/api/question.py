"""Functions of Python made from records of parameters."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, get_args, get_type_hints

from roofline.api import parameters
from roofline.api.parameters import Parameter, Question, parameters_of
from roofline.cost.moe import Routing
from roofline.hardware.machine import Gpu, Node
from roofline.model.architecture import Architecture

P = ParamSpec("P")
Q = TypeVar("Q", bound=Question)
Answer = TypeVar("Answer")

RAISES: Final = "\n\nRaises:\n    RooflineError: Anything the user can mend."
_TYPES: Final = {
    **vars(parameters),
    "Architecture": Architecture,
    "Callable": Callable,
    "Gpu": Gpu,
    "Node": Node,
    "Path": Path,
    "Routing": Routing,
    "Sequence": Sequence,
}
"""Types that annotations of parameters name."""


def question(
    record: Callable[P, Q], **others: Any
) -> Callable[[Callable[[Q], Answer]], Callable[P, Answer]]:
    """Decorator that gives a function of a record the record's parameters for its own.

    Args:
        record: Kind of question. The section of the parameters in the docstring is made from it;
            that of the errors is the same for all questions but those that have their own.
        others: Types that only this question names, by name.
    """
    kind: Any = record
    known = {name: each for name, (_, each) in parameters_of(kind).items()}
    hints = get_type_hints(kind, _TYPES | others)
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


def _told(parameter: Parameter, kind: Any) -> str:
    """Meaning of a parameter in Python, with the words that it may be and its unit."""
    told = parameter.text or parameter.help
    words = [word for each in (kind, *get_args(kind)) for word in get_args(each)]
    if words and all(isinstance(word, str) for word in words):
        told += f" One of {', '.join(f'``{word}``' for word in words)}."
    return f"{told} [{parameter.unit}]" if parameter.unit else told
