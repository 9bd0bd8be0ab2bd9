"""Names of parameters as the command line spells them.

The library names parameters in backquotes, ``give a smaller `batch`, or `kv=fp8` ``, as Python and
YAML have them. Everything that a command prints or writes goes through here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, cast

from roofline.api import parameters
from roofline.api.question import Parameter, Question, parameters_of
from roofline.records import replace
from roofline.table import Column, Derivation, Result, Table

T = TypeVar("T")

SPELLED: Final = {
    "changes": "--with",
    "disaggregated": "--disaggregated/--aggregated",
    "every": "--all",
    "format_": "--as",
    "rank": "--static",
    "redundant": "--redundant-experts",
    "routing": "--routing-skew or --expert-loads",
    "target": "--for",
}
"""Options that are not called as their parameters, or fields of these, are."""
ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "batch": ("--concurrency",),
    "concurrency": ("--max-concurrency",),
    "dp": ("--data-parallel-size",),
    "ep": ("--expert-parallel-size",),
    "kv": ("--kv-cache-dtype",),
    "max_context": ("--max-model-len",),
    "max_sequences": ("--max-num-seqs",),
    "memory_utilization": ("--gpu-memory-utilization",),
    "output": ("--osl",),
    "pp": ("--pipeline-parallel-size",),
    "prompt": ("--isl",),
    "rate": ("--request-rate",),
    "requests": ("--num-prompts",),
    "token_budget": ("--max-num-batched-tokens",),
    "tp": ("--tensor-parallel-size",),
    "weights": ("--quantization",),
}
"""Names on a command line that engines and their benchmarks have for parameters."""
OTHERS: Final = ("backend", "cross_validate", "format", "given", "keep", "quality", "where")
"""Options of commands that no record of parameters is behind."""
MARKED: Final = re.compile(r"(?<!`)`([a-z][a-z_0-9]*)(?:=([^`\n]*))?`(?!`)")
"""Name of a parameter in a sentence, perhaps with a value."""
QUOTED: Final = re.compile(rf"(?<!\w)'[^'\n]*'(?!\w)|{MARKED.pattern}")
"""Words that a user wrote, in quotes, which stay as they are; or such a name."""


def aliases_of(name: str, others: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of a parameter in engines and their benchmarks, but those of another parameter.

    >>> aliases_of("batch"), aliases_of("concurrency"), aliases_of("batch", ["concurrency"])
    (('--concurrency',), ('--max-concurrency',), ())
    """
    taken = {f"--{other.replace('_', '-')}" for other in others}
    return tuple(each for each in ALIASES.get(name, ()) if each not in taken)


def spelled(name: str, parameter: Parameter, kind: Any) -> str:
    """Option of a parameter of a type; of a switch that can be off, both, with a slash between."""
    word = (parameter.called or name).replace("_", "-")
    both = "bool" in str(kind) and parameter.default is not False
    return SPELLED.get(name) or (f"--{word}/--no-{word}" if both else f"--{word}")


@cache
def _spellings() -> dict[str, str]:
    """Options by the name of their parameter."""
    records = [
        each
        for each in vars(parameters).values()
        if isinstance(each, type) and issubclass(each, Question)
    ]
    known = SPELLED | {name: f"--{name.replace('_', '-')}" for name in OTHERS}
    for record in records:
        for name, (kind, each) in parameters_of(record).items():
            known[name] = spelled(name, each, kind)
    return known


def _option(mark: re.Match[str]) -> str:
    name, value = mark.groups()
    if name is None or name not in _spellings():
        return mark[0]
    on, _, off = _spellings()[name].partition("/")
    if value == "False":
        return off
    return on if value in (None, "True") or name == "rank" else f"{on} {value}"


def flags(text: str) -> str:
    """Text whose parameters are options.

    >>> flags("give a smaller `batch`, `kv=fp8` or `prefetch=False`")
    'give a smaller --batch, --kv fp8 or --no-prefetch'

    What a user wrote stays as it is:

    >>> flags("no network '`tp`'; the engine's `tp` is its own")
    "no network '`tp`'; the engine's --tp is its own"
    """
    return QUOTED.sub(_option, text) if "`" in text else text


def in_flags(value: T) -> T:
    """Answer, or a part of one, whose sentences and cells name options."""
    new: Any = value
    if isinstance(value, str):
        new = flags(value)
    elif isinstance(value, Column):
        if any(isinstance(each, str) and "`" in each for each in value.values):
            new = replace(value, values=in_flags(value.values))
    elif isinstance(value, (Result, Table, Derivation)):
        new = replace(
            value, **{name: in_flags(getattr(value, name)) for name in value.__struct_fields__}
        )
    elif isinstance(value, Mapping):
        new = {key: in_flags(each) for key, each in value.items()}
    elif isinstance(value, Sequence):
        made = [in_flags(each) for each in value]
        new = made if isinstance(value, list) else tuple(made)
    return cast(T, new)
