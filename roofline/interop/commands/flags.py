"""Flags of a command or keys of a configuration: taken one by one, and what nobody took."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Never

from msgspec import Struct

from roofline.interop.commands.words import Word
from roofline.records import replace
from roofline.schema.document import Document, Text

_LOOKS_LIKE_SWITCH: Final = re.compile(r"--(?:no|enable|disable|use|skip|trust|is|allow)-")
_WHOLE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([kKmMgG]?)")
_SUFFIXES: Final[Mapping[str, int]] = {
    "": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "K": 2**10, "M": 2**20, "G": 2**30,
}  # fmt: skip
_TRUE: Final = ("", "true", "True", "1", "on", "yes")
_FALSE: Final = ("false", "False", "0", "off", "no")


class Value(Struct, frozen=True):
    """Value of a flag as it was written, and its place."""

    text: str
    spelled: str
    at: int
    source: Text

    def refuse(self, message: str, hint: str) -> Never:
        """Raise an error that is located at the flag."""
        raise self.source.error(self.at, f"{self.spelled}: {message}", hint)


@dataclass(slots=True)
class GivenFlags:
    """Flags by name. What is asked for counts as used."""

    values: dict[str, list[Value]] = field(default_factory=dict)
    positional: list[Value] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def find(self, name: str) -> Value | None:
        """The only value of a flag; DocumentError at the second one of two that differ."""
        self.used.add(name)
        every = self.values.get(name, [])
        for other in every[1:]:
            if other.text != every[0].text:
                said = f"{every[0].text!r} before and {other.text!r} here"
                other.refuse(f"said twice, {said}"[:160], "say it once")
        return every[0] if every else None

    def refuse(self, name: str, message: str, hint: str) -> Never:
        """Raise an error that is located at a flag, which is there."""
        self.values[name][0].refuse(message, hint)

    def text(self, name: str) -> str | None:
        """Text of a flag; None where it is not there."""
        found = self.find(name)
        return None if found is None else found.text

    def whole(self, name: str, least: int = 1) -> int | None:
        """A whole number, with k for thousands and K for 1024; None where it is not there."""
        found = self.find(name)
        if found is None:
            return None
        match = _WHOLE.fullmatch(found.text)
        number = float(match[1]) * _SUFFIXES[match[2]] if match else -1.0
        if number < least or number != int(number):
            found.refuse(
                f"{found.text!r:.40} is no whole number of {least} or more", "give a number"
            )
        return int(number)

    def share(self, name: str, most: float = 1.0) -> float | None:
        """A number above 0; None where the flag is not there."""
        found = self.find(name)
        if found is None:
            return None
        try:
            number = float(found.text)
        except ValueError:
            number = -1.0
        if not 0 < number <= most:
            found.refuse(
                f"{found.text!r:.40} is no number above 0 and up to {most:g}", "give a number"
            )
        return number

    def switch(self, name: str, default: bool = False) -> bool:
        """State of a switch: ``--NAME``, ``--no-NAME``, or with a truth value."""
        on, off = self.find(name), self.find(f"no-{name}")
        if on is not None and off is not None:
            off.refuse(f"{on.spelled} says the opposite", "say one of them")
        if off is not None:
            return False
        if on is None:
            return default
        if on.text not in (*_TRUE, *_FALSE):
            on.refuse(f"{on.text!r:.40} is neither true nor false", "leave the value out")
        return on.text in _TRUE

    def chosen(self, name: str, words: Mapping[str, str], what: str) -> str | None:
        """A word of an engine in ours; None where the flag is not there."""
        found = self.find(name)
        if found is None:
            return None
        if found.text not in words:
            found.refuse(f"{found.text!r:.40} is {what}", f"known here: {', '.join(words)}")
        return words[found.text]

    def unused(self) -> tuple[str, ...]:
        """Flags that nobody asked for, as they were written."""
        names = [name for name in self.values if name not in self.used]
        said = [value for name in names for value in self.values[name]]
        return tuple(
            f"{each.spelled} {each.text}".strip() for each in sorted(said, key=lambda v: v.at)
        )

    def merged(self, other: "GivenFlags") -> "GivenFlags":
        """Both together: a flag that both have must say the same."""
        values = {name: list(found) for name, found in self.values.items()}
        for name, found in other.values.items():
            values.setdefault(name, []).extend(found)
        return replace(self, values=values)


class EngineFlags(Struct, frozen=True):
    """Flags of an engine."""

    short: Mapping[str, str]
    """Names by other spellings, dashes and all: ``{"-tp": "tensor-parallel-size"}``."""
    switches: frozenset[str] = frozenset()
    """Names that take no value, beside those that start like a switch."""


def flags(words: Sequence[Word], known: EngineFlags, source: Text) -> GivenFlags:
    """Sort the words after a program into flags and what stands alone.

    Args:
        words: What follows the program's name.
        known: Its flags. Of others, a word that does not start with a dash is taken for their
            value, unless the flag starts like a switch: ``--enable-…``.
        source: What errors are located in.
    """
    out = GivenFlags()
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not _is_flag(word.text):
            out.positional.append(Value(word.text, word.text[:40], word.at, source))
            continue
        spelled, equals, text = word.text.partition("=")
        name = known.short.get(spelled) or spelled.lstrip("-").replace("_", "-")
        name = known.short.get(f"--{name}", name)
        if not equals and place < len(words) and _takes(name, spelled, words[place].text, known):
            text = words[place].text
            place += 1
        out.values.setdefault(name, []).append(Value(text, spelled, word.at, source))
    return out


def _is_flag(text: str) -> bool:
    """A dash and a letter: negative numbers are values."""
    return len(text) > 1 and text[0] == "-" and not text[1].isdigit() and text[1] != "."


def _takes(name: str, spelled: str, following: str, known: EngineFlags) -> bool:
    if _is_flag(following):
        return False
    if name in known.switches or _LOOKS_LIKE_SWITCH.match(spelled.replace("_", "-")):
        return following in ("true", "false", "True", "False")
    return True


def keys(
    document: Document, path: Iterable[str | int], names: Mapping[str, str] | None = None
) -> GivenFlags:
    """Keys of a mapping in a document as flags; truth values as switches, nested ones dotted.

    Args:
        document, path: What was read, and where in it the mapping is; no flags where it is not
            there.
        names: Flag by key; None for keys with dashes in place of underscores.
    """
    data, where = document.data, tuple(path)
    for step in where:
        data = data.get(step) if isinstance(data, dict) else data[step]
    out = GivenFlags()
    text = Text(document.text, document.source)
    for key, value in _flat(data if isinstance(data, dict) else {}):
        spelled = ".".join(key)
        name = names.get(spelled, spelled) if names is not None else spelled.replace("_", "-")
        found = Value(_written(value), spelled, document.offset(*where, *key), text)
        out.values.setdefault(name, []).append(found)
    return out


def _flat(
    data: Mapping[str, Any], before: tuple[str, ...] = ()
) -> Iterable[tuple[tuple[str, ...], Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*before, key))
        elif value is not None:
            yield (*before, key), value


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(_written, value))
    return str(value)
