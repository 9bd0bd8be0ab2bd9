"""pydantic's findings in plain sentences: what is wrong, and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from inspect import isclass
from typing import Any, Final, get_args

from pydantic import BaseModel

from roofline.schema.building import MAX_DIGITS
from roofline.schema.document import Document, shown
from roofline.schema.findings import Finding, Path

_MAX_LISTED: Final = 20
_WANTED: Final = {
    "string_type": "text",
    "string_sub_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "none_required": "nothing (null)",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "iterable_type": "a list",
}
_PLAIN: Final = {
    "a whole number": re.compile(r"[-+]?[0-9]++"),
    "a number": re.compile(r"[-+]?[0-9]++(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?"),
}
# Thousands: the comma of "1,5" is not one of these.
_GROUPED: Final = re.compile(r"[-+]?[0-9]{1,3}(?:[,_][0-9]{3})++(?:\.[0-9]++)?")
_BOUNDS: Final = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "multiple_of": ("multiple_of", "a multiple of"),
}
_EMPTY: Final = "write something, or remove the key if it is optional"
_LENGTHS: Final = {
    "too_short": ("min_length", "at least", "entries"),
    "too_long": ("max_length", "at most", "entries"),
    "string_too_short": ("min_length", "at least", "characters"),
    "string_too_long": ("max_length", "at most", "characters"),
}


def sentences(model: type[BaseModel], document: Document, group: list[Finding]) -> tuple[str, str]:
    """What is wrong, and what to do."""
    finding = group[0]
    kind, path, context = finding.kind, finding.path, finding.context
    name = _name(path)
    value = _value(document.data, path)
    if kind == "missing":
        return f"{_parent(path)} has no {shown(path[-1])}", f"add '{path[-1]}:' to it"
    if kind == "extra_forbidden":
        allowed = _allowed(model, finding.raw)
        known = f"known keys: {_listed(allowed)}" if allowed else "remove it"
        message = f"{shown(path[-1])} is not a known key of {_parent(path)}"
        return message, _did_you_mean(path[-1], allowed) + known
    if value == [] and any(entry.kind == "too_short" for entry in group):
        return f"{name} is empty", _EMPTY
    if wanted := dict.fromkeys(_WANTED[entry.kind] for entry in group if entry.kind in _WANTED):
        texts = [choice for choice in group if choice.kind in ("literal_error", "enum")]
        choices = [f"one of {entry.context['expected']}" for entry in texts]
        if "a number" in wanted:
            wanted.pop("a whole number", None)
        message = f"{name} must be {' or '.join([*wanted, *choices])}, not {shown(value)}"
        return message, _retype(value, wanted)
    if kind in ("literal_error", "enum"):
        expected = str(context["expected"])
        options = re.findall(r"'([^']*)'", expected)
        message = f"{name} cannot be {shown(value)}"
        return message, f"{_did_you_mean(value, options)}use {expected}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        limit = f"{words} {context[key]}"
        return f"{name} must be {limit}, not {shown(value)}", f"write a number {limit}"
    if kind in _LENGTHS:
        key, words, things = _LENGTHS[kind]
        if context[key] == 1 and words == "at least":
            return f"{name} is empty", _EMPTY
        limit = f"{words} {context[key]} {things}"
        return f"{name} must have {limit}", f"write {limit}"
    if kind == "string_pattern_mismatch":
        return f"{name} cannot be {shown(value)}", f"write it like {context['pattern']}"
    if kind == "union_tag_invalid":
        options = re.findall(r"'([^']*)'", str(context["expected_tags"]))
        message = f"{name} cannot be {shown(value)}"
        return message, f"{_did_you_mean(value, options)}use {_listed(options)}"
    if kind in ("value_error", "assertion_error"):
        reason = context.get("error", finding.message)
        hint = getattr(reason, "hint", "change it, or what it is compared with")
        return f"{name}: {reason}", hint
    if kind == "finite_number":
        return f"{name} must be finite, not {shown(value)}", "write a number below 1.8e308"
    words = finding.message.removeprefix("Input ")
    return f"{name} {words[:1].lower()}{words[1:]}", "change the value here"


def _retype(value: object, wanted: Iterable[str]) -> str:
    wanted = list(wanted)
    number = _PLAIN["a number" if "a number" in wanted else "a whole number"]
    if isinstance(value, str) and {"a number", "a whole number"} & set(wanted):
        plain = value.strip()
        if _GROUPED.fullmatch(plain):
            plain = plain.replace(",", "").replace("_", "")
        if number.fullmatch(plain) and len(plain) <= MAX_DIGITS:
            return f"write {plain}, without quotes or separators"
        return f"write {' or '.join(wanted)}"
    if isinstance(value, str) and "true or false" in wanted:
        return "write true or false, without quotes"
    if isinstance(value, float) and "a whole number" in wanted:
        return "write it without a fraction or exponent"
    if isinstance(value, int | float) and "text" in wanted:
        return "put it in quotes"
    if value is None:
        return "write a value after the colon, or remove the key if it is optional"
    if "a list" in wanted:
        return "write the items as [first, second]"
    if "a mapping" in wanted:
        return "write 'key: value' lines, indented below it"
    return f"write {' or '.join(wanted)}"


def _name(path: Path) -> str:
    """Path as people write it: ``hbm.rate``, ``links[0].kind``.

    >>> _name(("links", 0, "kind"))
    "'links[0].kind'"
    """
    if not path:
        return "the document"
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return shown(text)


def _parent(path: Path) -> str:
    return _name(path[:-1])


def _value(data: Any, path: Path) -> Any:
    for step in path:
        try:
            data = data[step]
        except (IndexError, KeyError):
            return None
    return data


def short(name: object) -> str:
    """Name for a comparison with others, which is quadratic in its length."""
    return str(name)[:64]


def _did_you_mean(name: object, allowed: Iterable[str]) -> str:
    close = get_close_matches(short(name), list(allowed), 1)
    return f"did you mean {shown(close[0])}? " if close else ""


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    rest = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + rest


def _allowed(model: type[BaseModel], location: Path) -> list[str]:
    """Keys of the model in which pydantic found an unknown key."""
    models = [model]
    for step in location[:-1]:
        inner: list[type[BaseModel]] = []
        for candidate in models:
            for name, info in candidate.model_fields.items():
                if step in (name, info.alias):
                    inner += _models_in(info.annotation)
        named = [candidate for candidate in models if _is_branch(candidate, step)]
        # Neither a field nor a branch: an index, a key of a mapping, or a branch without a model.
        models = inner or named or models
    keys = {info.alias or name: None for each in models for name, info in each.model_fields.items()}
    return list(keys)


def _is_branch(model: type[BaseModel], tag: str | int) -> bool:
    """Whether a branch of a union is this model: by its name, or by the literal that tells it."""
    literals = (get_args(info.annotation) for info in model.model_fields.values())
    return tag == model.__name__ or any(tag in values for values in literals)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]
