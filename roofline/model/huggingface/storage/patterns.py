"""Places in a config, and names of modules as quantisers list them there.

Lists have whole names, parts of names, wildcards and expressions (``re:``).
"""

import re
from collections.abc import Iterator
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from msgspec import Struct

from roofline.errors import UnsupportedModelError

if TYPE_CHECKING:
    from roofline.schema import Document


class DocumentPlace(Struct, frozen=True):
    """A value in a document, meant to be a mapping."""

    document: "Document"
    path: tuple[str | int, ...]
    """Keys that lead to it."""

    @property
    def name(self) -> str:
        """Its key, or the name of the file if it is the whole of it."""
        return str(self.path[-1]) if self.path else self.document.source

    @property
    def value(self) -> Any:
        """Whatever is there; None where there is no such place."""
        value = self.document.data
        for step in self.path:
            inside = step in value if isinstance(value, dict) else isinstance(value, list)
            if not inside or (isinstance(value, list) and not isinstance(step, int)):
                return None
            value = value[step]
        return value

    @property
    def data(self) -> dict[str, Any]:
        """The mapping.

        Raises:
            UnsupportedModelError: Something else is there.
        """
        value = self.value
        if not isinstance(value, dict):
            self.refuse(f"{self.name} is not a mapping", hint="give it as the checkpoint has it")
        return value

    def at(self, *keys: str | int) -> "DocumentPlace":
        """Something inside."""
        return DocumentPlace(self.document, (*self.path, *keys))

    def get(self, *keys: str) -> Any:
        """Value of the first key that is there and not null."""
        return next((self.data[key] for key in keys if self.data.get(key) is not None), None)

    def words(self, *keys: str) -> Iterator[tuple["DocumentPlace", str]]:
        """Texts in the list under the first key that is there, with their places.

        Raises:
            UnsupportedModelError: It is neither a text nor a list of texts.
        """
        key = next((key for key in keys if self.data.get(key) is not None), None)
        if key is None:
            return
        listed = self.at(key)
        entries = listed.value if isinstance(listed.value, list) else [listed.value]
        for index, word in enumerate(entries):
            here = listed.at(index) if isinstance(listed.value, list) else listed
            if not isinstance(word, str) or not word:
                here.refuse(f"{key} has something that is not the name of a module")
            yield here, word

    def where(self) -> str:
        """``file:line:column``."""
        return self.document.where(*self.path)

    def refuse(
        self, problem: str, *, hint: str = "give `weights` for one format of all linear layers"
    ) -> NoReturn:
        """Give up on the network because of what is here.

        Raises:
            UnsupportedModelError: Always.
        """
        raise UnsupportedModelError(problem, hint=hint, where=self.where())


LONGEST: Final = 300
MOST_REPEATS: Final = 3
"""Unbounded repeats in one expression: a hostile one costs at most the cube of a name's length."""
_LAYERS: Final = re.compile(r"(?:^|(?<=\.))(?:layers|h|blocks)\.")
_NUMBER: Final = re.compile(r"layers\.(\d{1,6})(?![\d\[?*])")
_OUTER: Final = re.compile(r"^(?:(?:model|language_model|transformer|backbone|decoder)\.)+")
_FOREIGN: Final = re.compile(
    r"mtp|nextn|vision|visual|image|audio|projector|embed_vision|draft|eagle", re.IGNORECASE
)
_HARMLESS: Final = re.compile(
    r"norm|bias|embed|wte|wpe|eh_proj|shared_head|rotary|conv1d|a_log|dt_bias|score|sinks?$",
    re.IGNORECASE,
)
_TOKEN: Final = re.compile(
    r"\\[.\-_/](?![*+{])|(?P<repeat>(?:\\d|\[0-9\]|\.)[*+])|\\d|\[0-9\]|\."
    r"|[\w\-](?![*+?{])|\((?:\?:)?|\||\)\??(?![*+{])|\^|\$"
)
_FORMS: Final = ("model.", "language_model.model.", "model.language_model.")
"""Prefixes of the layers in names that expressions are written for."""


class Pattern(Struct, frozen=True):
    """One entry of a list of modules."""

    text: str
    """Entry as written."""
    place: DocumentPlace
    """Place of the entry."""
    kind: Literal["name", "glob", "re"]
    """A name (which also means all below it), one with wildcards, or a regular expression."""
    plain: str
    """The text from ``layers.`` on, as it would be for the first layer."""
    layer: int | None
    """Number of the layer, where one is named. [1]"""
    expression: re.Pattern[str] | None = None
    """Compiled, unless it is a name."""

    @property
    def numbered(self) -> bool:
        """True if it has to be tried in every layer: it may mean some and not others."""
        digits = r"\d" if self.kind == "re" else r"layers\.[\d\[?]"
        return self.layer is None and re.search(digits, self.plain) is not None

    @property
    def meaning(self) -> tuple[str, str]:
        """Two that share it mean the same modules, each in its own layer."""
        return self.kind, self.plain

    @property
    def foreign(self) -> bool:
        """True for something beside the text decoder."""
        return self.kind != "re" and _FOREIGN.search(_LAYERS.split(self.text)[0]) is not None

    @property
    def harmless(self) -> bool:
        """True for a name that is no matrix of the decoder."""
        return bool(_HARMLESS.search(self.text) or _FOREIGN.search(self.text))

    def matches(self, module: str) -> bool:
        """True if it means the module: ``"layers.0.self_attn.q_proj"``, ``"lm_head"``.

        The number is that of the layer only where the pattern is `numbered`, else always 0.
        """
        if self.expression is None:
            name, wanted = f".{module}.", f".{self.plain}."
            return name.startswith(wanted) if "layers." in self.plain else wanted in name
        if self.kind == "glob":
            steps = module.split(".")
            parents = (".".join(steps[:end]) for end in range(len(steps), 0, -1))
            return any(self.expression.match(part) for part in parents)
        return any(self.expression.match(form + module) for form in (*_FORMS, ""))


def read(place: DocumentPlace, text: str) -> Pattern:
    """Understand one entry.

    Raises:
        UnsupportedModelError: An expression that is too long or uses more than names need.
    """
    if len(text) > LONGEST:
        place.refuse("the name of a module is longer than any module's", hint="shorten it")
    if text.startswith("re:"):
        return Pattern(text, place, "re", text, None, _expression(place, text[3:]))
    plain = _LAYERS.split(text, maxsplit=1)
    name = f"layers.{plain[1]}" if len(plain) == 2 else _OUTER.sub("", text)
    number = _NUMBER.match(name)
    layer = int(number[1]) if number else None
    if number:
        name = f"layers.0{name[number.end() :]}"
    if not set("*?[") & set(text):
        return Pattern(text, place, "name", name, layer)
    return Pattern(text, place, "glob", name, layer, re.compile(translate(name)))


def _expression(place: DocumentPlace, text: str) -> re.Pattern[str]:
    """Compile what needs no guessing: no repeated groups, few repeats."""
    at, repeats = 0, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            break
        repeats += token["repeat"] is not None
        at = token.end()
    if at == len(text) and repeats <= MOST_REPEATS:
        try:
            return re.compile(text)
        except re.error:
            pass
    return place.refuse(
        f"the expression {text!r:.60} is not understood",
        hint="names, alternatives in brackets, dots and up to three repeats can be read",
    )


class Rule(Struct, frozen=True):
    """Modules that have a format of their own: the first rule that holds decides."""

    pattern: Pattern
    """Modules that the rule is about."""
    format: str | None
    """Name of the number format; empty for one that is not quantised, None for one that is as it
    would be without the rule."""


class StorageScheme(Struct, frozen=True):
    """Formats of the matrices of a checkpoint."""

    label: str
    """Name that the quantiser gives it: ``"awq"``, ``"modelopt NVFP4"``."""
    default: str
    """Format of linear layers that no rule names; empty where they are not quantised."""
    rules: tuple[Rule, ...] = ()
    """Exceptions, in order."""
    head: bool = False
    """True if the LM head is one of the linear layers."""
    experts: str = ""
    """Format of routed experts where it is not the default."""
    kv: str = ""
    """Format of the cache that the checkpoint has scales for; may be empty."""
