"""Models made of documents; the first thing that does not fit is told at its place.

Strict models, and figures with their sources, are shapes that files of all rooms share.
"""

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from inspect import isclass
from typing import Any, Final, TypeAlias, TypeVar, get_args

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from roofline.errors import DocumentError, QuantityError
from roofline.schema.document import MAX_DIGITS, Document, collector_paused, shown
from roofline.units import parse

ASSUMED = "assumed"
"""Source of a guess. It is not listed among the sources, but says in a note why."""


class Strict(BaseModel):
    """A mapping with known keys, whose values are taken as they are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SourceEntry(Strict):
    """A document that figures are taken from."""

    title: str = Field(min_length=1)
    url: str = ""
    """Title and address."""
    read_on: str = ""
    """Date."""
    note: str = ""
    """Remark for the reader."""


class SourcedFigure(Strict):
    """A figure and where it is from."""

    value: str | float | int
    """Quantity with its unit, or a plain number."""
    source: str = Field(min_length=1)
    """Key under ``sources:``, or ``assumed``."""
    where: str = ""
    """Place in the source."""
    note: str = ""
    """Needed where the source is ``assumed``."""
    date: str = ""
    """Date of the figure, if that matters."""


def check_sources(document: Document) -> None:
    """Hold a document to its sources: those used are listed, those listed are used.

    Every mapping with the key ``source`` counts as a figure, wherever it is. A source ``assumed``
    needs no entry, but a ``note``.

    Args:
        document: Whose top level has the entries under ``sources``.

    Raises:
        DocumentError: At the figure without an entry or note, or at the entry that nothing uses.
    """
    data = document.data if isinstance(document.data, dict) else {}
    entries = data.get("sources")
    names = list(entries) if isinstance(entries, dict) else []
    used: set[str] = set()
    # Reversed, so that the stack gives figures in the order of the document.
    waiting: list[tuple[tuple[str | int, ...], Any]] = [
        ((key,), value) for key, value in reversed(data.items()) if key != "sources"
    ]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, list):
            waiting += [((*path, index), item) for index, item in enumerate(value)][::-1]
        elif isinstance(value, dict):
            if isinstance(value.get("source"), str):
                used.add(_check_figure(document, path, value, names))
            waiting += [((*path, key), item) for key, item in reversed(value.items())]
    for name in names:
        if name not in used:
            raise DocumentError(
                f"the source {shown(name)} is listed but nothing uses it",
                hint="remove it, or name it at the figures that are taken from it",
                where=document.where_key("sources", name),
            )


def _check_figure(
    document: Document, path: tuple[str | int, ...], figure: dict[str, Any], names: list[str]
) -> str:
    source: str = figure["source"]
    if source == ASSUMED:
        if not figure.get("note"):
            raise DocumentError(
                f"{shown(path[-1])} is assumed, without a reason",
                hint="add a 'note:' that says why this value, or name a source",
                where=document.where(*path, "source"),
            )
    elif source not in names:
        raise DocumentError(
            f"the source {shown(source)} is not listed",
            hint=f"add it under 'sources:', which has {', '.join(names) or 'no entries'}",
            where=document.where(*path, "source"),
        )
    return source


def quantity(document: Document, unit: str, *path: str | int) -> float:
    """Value at a path in base units.

    Args:
        document: What the value is read from.
        unit: Base unit it must have: ``"B/s"``; empty for a plain number.
        path: Keys and indices that lead to a text or a number.

    Raises:
        QuantityError: At the value, if it is not in that unit or not finite.

    Examples:
        >>> quantity(Document({"hbm": "3.35 TB/s"}, "x.yaml"), "B/s", "hbm")
        3350000000000.0
    """
    value = document.data
    for step in path:
        value = value[step]
    try:
        if isinstance(value, int | float):
            return parse(repr(value), unit)
        if isinstance(value, str):
            return parse(value, unit)
    except QuantityError as error:
        where = document.where(*path)
        raise QuantityError(error.message, hint=error.hint, where=where) from None
    raise QuantityError(
        f"{shown(value)} is not a quantity",
        hint=f"write it like '1.5 G{unit}'" if unit else "write a number",
        where=document.where(*path),
    )


Path: TypeAlias = tuple[str | int, ...]

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

Model = TypeVar("Model", bound=BaseModel)

_MAX_FINDINGS: Final = 100


class Finding(Struct, frozen=True):
    """One of pydantic's errors.

    ``raw`` is its location as pydantic has it; ``tags`` says which steps of it are no steps in the
    document but branches of unions; ``path`` is what remains.
    """

    kind: str
    path: Path
    raw: Path
    tags: tuple[int, ...]
    message: str
    context: Mapping[str, Any]

    @property
    def at_key(self) -> bool:
        """True if a key is at fault, and not its value."""
        return self.kind == "extra_forbidden" or self.raw[-1:] == ("[key]",)


def locate(data: Any, detail: Any) -> Finding:
    """Find the value that pydantic's location means."""
    location: Path = detail["loc"]
    kind: str = detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    path: list[str | int] = []
    tags: list[int] = []
    value = data
    for index, step in enumerate(location):
        in_mapping = isinstance(value, dict) and step in value
        in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if in_mapping or in_list:
            value = value[step]
            path.append(step)
        elif kind == "missing" and index == len(location) - 1:
            path.append(step)
        else:
            tags.append(index)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        path.append(str(context["discriminator"]).strip("'"))
        kind = "missing" if kind == "union_tag_not_found" else kind
    return Finding(kind, tuple(path), location, tuple(tags), detail["msg"], context)


def miscounted(data: Any, finding: Finding) -> bool:
    """True if a list is only called too short for its entries that are wrong, each told itself."""
    if finding.kind != "too_short":
        return False
    for step in finding.path:
        data = data[step]
    least: int = finding.context["min_length"]
    return len(data) >= least


def meant(findings: list[Finding], level: int = 0) -> list[Finding]:
    """Keep the branch of each union that fits best; all of them if none even begins to fit."""
    kept = [finding for finding in findings if len(finding.tags) <= level]
    unions: dict[Path, dict[str | int, list[Finding]]] = {}
    for finding in findings:
        if len(finding.tags) > level:
            at = finding.tags[level]
            branches = unions.setdefault(finding.raw[:at], {})
            branches.setdefault(finding.raw[at], []).append(finding)
    for union, branches in unions.items():
        begun = [
            branch
            for branch in branches.values()
            if any(len(finding.raw) > len(union) + 1 for finding in branch)
        ]
        chosen = [min(begun, key=len)] if begun else branches.values()
        for branch in chosen:
            kept += meant(branch, level + 1)
    return kept


def sentences(model: type[BaseModel], document: Document, group: list[Finding]) -> tuple[str, str]:
    """Sentences on what is wrong, and on what to do."""
    finding = group[0]
    kind, path, context = finding.kind, finding.path, finding.context
    name = _name(path)
    value = _value(document.data, path)
    if kind == "missing":
        return f"{_name(path[:-1])} has no {shown(path[-1])}", f"add '{path[-1]}:' to it"
    if kind == "extra_forbidden":
        allowed = _allowed(model, finding.raw)
        known = f"known keys: {_listed(allowed)}" if allowed else "remove it"
        message = f"{shown(path[-1])} is not a known key of {_name(path[:-1])}"
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
        named = [
            candidate
            for candidate in models
            # A branch of a union, by its name or by the literal that tells it.
            if step == candidate.__name__
            or any(step in get_args(info.annotation) for info in candidate.model_fields.values())
        ]
        # Neither a field nor a branch: an index, a key of a mapping, or a branch without a model.
        models = inner or named or models
    keys = {info.alias or name: None for each in models for name, info in each.model_fields.items()}
    return list(keys)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]


def validate(model: type[Model], document: Document) -> Model:
    """Make a model of a document, taking values as they are written.

    Args:
        model: What the document should be. Numbers in quotes are text, whole numbers are numbers
            too, lists are good for tuples, and text for literals and enumerations.
        document: What was read.

    Raises:
        DocumentError: At the first value, in the order of the document, that does not fit.
    """
    with document.at():  # for errors of the model's own validators: pydantic locates ValueError
        try:
            # JSON rules: Python's would refuse a list for a tuple, and text for an enumeration.
            with collector_paused():
                return model.model_validate_json(json.dumps(document.data), strict=True)
        except ValidationError as error:
            raise _refusal(model, document, error) from None


def _refusal(model: type[BaseModel], document: Document, error: ValidationError) -> DocumentError:
    details = error.errors(include_url=False, include_input=False)[:_MAX_FINDINGS]
    groups: dict[Path, list[Finding]] = {}
    located = [locate(document.data, detail) for detail in details]
    for finding in meant([each for each in located if not miscounted(document.data, each)]):
        groups.setdefault(finding.path, []).append(finding)
    order = sorted(groups, key=lambda path: document.offset(*path))
    missing = {path for path in order if groups[path][0].kind == "missing"}
    # A misspelt key is also a missing one: say it once, where it is written.
    for path in order:
        if groups[path][0].kind == "extra_forbidden":
            names = {gone[-1]: gone for gone in missing if gone[:-1] == path[:-1]}
            for name in get_close_matches(short(path[-1]), map(str, names), 1):
                missing.discard(names[name])
                del groups[names[name]]
    first = next(path for path in order if path in groups)
    more = len(groups) - 1
    message, hint = sentences(model, document, groups[first])
    if more:
        several = "one more problem" if more == 1 else f"{more:,} more problems"
        hint = f"{hint} ({several} in this file)"
    where = document.where_key(*first) if groups[first][0].at_key else document.where(*first)
    return DocumentError(message, hint=hint, where=where)
