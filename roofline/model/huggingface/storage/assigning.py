"""Gives every matrix of a network the format its quantiser left it in."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from roofline.model.architecture import UNQUANTISED, Architecture, Block
from roofline.model.huggingface.storage.patterns import DocumentPlace, Rule, StorageScheme
from roofline.model.huggingface.storage.spellings import spellings, vocabulary
from roofline.records import replace

MOST_NAMES: Final = 1000
MOST_EXPRESSIONS: Final = 64
"""Rules that name no layer; those with wildcards or expressions are tried on every module."""
MOST_TRIED: Final = 2000
"""Layers times rules that have to be tried in every one of them."""
_HEADS: Final = ("lm_head", "head", "output_layer")


@dataclass(slots=True)
class Book:
    """Rules of a scheme, open at a layer."""

    rules: tuple[Rule, ...]
    """Rules about the text decoder, in order."""
    words: frozenset[str] = frozenset()
    """All words in them: modules that no rule mentions need not be asked about."""
    used: set[tuple[str, str]] = field(default_factory=set)
    """Meanings of the rules that decided something."""
    _by_layer: dict[int | None, list[int]] = field(default_factory=dict)
    _known: dict[tuple[tuple[str, str], str], bool] = field(default_factory=dict)
    _page: list[Rule] = field(default_factory=list)
    _layer: int = 0

    def __post_init__(self) -> None:
        texts = " ".join(rule.pattern.text for rule in self.rules)
        self.words = frozenset(re.findall(r"[A-Za-z_]\w*", texts))
        for index, rule in enumerate(self.rules):
            self._by_layer.setdefault(rule.pattern.layer, []).append(index)

    def check(self, layers: int) -> None:
        """Refuse more work than a published list makes.

        Raises:
            UnsupportedModelError: At the first rule that is too many.
        """
        general = [self.rules[index] for index in self._by_layer.get(None, [])]
        expressions = [rule for rule in general if rule.pattern.expression is not None]
        numbered = [rule for rule in general if rule.pattern.numbered]
        for some, most in (
            (general, MOST_NAMES),
            (expressions, MOST_EXPRESSIONS),
            (numbered, max(1, MOST_TRIED // max(1, layers))),
        ):
            if len(some) > most:
                some[most].pattern.place.refuse("more modules are listed than a network has kinds")

    def open(self, layer: int) -> Hashable:
        """Turn to a layer; layers of equal blocks that give the same have the same formats."""
        general, own = self._by_layer.get(None, []), self._by_layer.get(layer, [])
        places = sorted((*general, *own)) if own else general
        self._page, self._layer = [self.rules[index] for index in places], layer
        numbered = any(rule.pattern.numbered for rule in self._page)
        return (
            tuple((rule.pattern.meaning, rule.format) for rule in self._page if rule.pattern.layer
                  is not None),
            layer if numbered else None,
        )  # fmt: skip

    def of(self, module: str) -> Rule | None:
        """The rule that decides about a module of the open layer: ``"mlp.gate_proj"``."""
        return next((rule for rule in self._page if self._holds(rule, module)), None)

    def of_head(self) -> Rule | None:
        """The rule that decides about the LM head."""
        for index in self._by_layer.get(None, []):
            pattern = self.rules[index].pattern
            if any(pattern.matches(name) for name in _HEADS):
                self.used.add(pattern.meaning)
                return self.rules[index]
        return None

    def _holds(self, rule: Rule, module: str) -> bool:
        pattern = rule.pattern
        if pattern.numbered:
            found = pattern.matches(f"layers.{self._layer}.{module}")
        else:
            key = (pattern.meaning, module)
            if key not in self._known:
                self._known[key] = pattern.matches(f"layers.0.{module}")
            found = self._known[key]
        if found:
            self.used.add(pattern.meaning)
        return found


_PLAIN_OF_TYPE: Final = dict.fromkeys(("deepseek_v4", "deepseek_ref"), frozenset({"index-k"}))
"""Matrices left in 16 bits by model type: with the compression of keys, that of the index."""
_LAYER: Final = re.compile(r"layers\.(\d{1,9})")


def assign(architecture: Architecture, scheme: StorageScheme, notes: list[str]) -> Architecture:
    """The network with a format for every matrix, said in the notes.

    Raises:
        UnsupportedModelError: A rule names a module that is not understood, or a part of a matrix.
    """
    plain = architecture.plain_format
    book = Book(tuple(rule for rule in scheme.rules if not rule.pattern.foreign))
    book.check(len(architecture.layers))
    chosen = []
    known: dict[tuple[Block, Hashable], tuple[tuple[str, str], ...]] = {}
    number = 0
    for block in architecture.layers:
        key = (block, book.open(number))
        if key not in known:
            known[key] = _of_block(architecture, block, scheme, book)
        chosen.append((block, known[key]))
        # A mixer without a norm stands beside that of the next block, in one layer of the file.
        number += 1 if block.norms or block.mixer is None else 0
    head = _head(architecture, scheme, book)
    _check_used(architecture, book)
    first = scheme.default or plain
    blocks = {
        (block, own): replace(block, formats=tuple(x for x in own if x[1] != first))
        for block, own in dict.fromkeys(chosen)
    }
    out = replace(
        architecture,
        layers=tuple(blocks[key] for key in chosen),
        weight_format=first,
        head_format=head,
        kv_format=scheme.kv,
    )
    out = _by_the_most(out)
    notes.append(_sentence(out, scheme))
    return out


def _of_block(
    architecture: Architecture, block: Block, scheme: StorageScheme, book: Book
) -> tuple[tuple[str, str], ...]:
    """Format of each matrix of a layer."""
    plain = UNQUANTISED | {linear.name for linear in block.extra}
    plain |= _PLAIN_OF_TYPE.get(architecture.model_type, frozenset())
    out = []
    for role in dict.fromkeys(block.roles(architecture.d_model)):
        base = "" if role in plain else scheme.default
        if role.startswith("experts-"):
            base = scheme.experts or base
        ways = spellings(role, architecture.model_type, book.words)
        found = _of_role(book, ways, base)
        out.append((role, found or architecture.plain_format))
    return tuple(out)


def _of_role(book: Book, ways: Iterable[tuple[str, ...]], base: str) -> str:
    found: dict[str, DocumentPlace | None] = {}
    for modules in ways:
        rules = [book.of(module) for module in modules]
        if any(rules):
            for rule in rules:
                name = base if rule is None or rule.format is None else rule.format
                found[name] = rule.pattern.place if rule else found.get(name)
    if len(found) > 1:
        place = next(place for place in found.values() if place)
        place.refuse(
            f"{place.value!r:.80} means only a part of a matrix that is computed as one"
            if isinstance(place.value, str)
            else "modules that are computed as one matrix have different formats",
            hint="name all of q, k and v, or both gate and up",
        )
    return next(iter(found), base)


def _head(architecture: Architecture, scheme: StorageScheme, book: Book) -> str:
    rule = book.of_head()
    base = scheme.default if scheme.head else ""
    found = base if rule is None or rule.format is None else rule.format
    return "" if architecture.tied_embeddings else found


def _check_used(architecture: Architecture, book: Book) -> None:
    """Refuse a rule that names nothing we know."""
    layers = len(architecture.layers)
    understood = set(book.used)
    for rule in book.rules:
        pattern = rule.pattern
        if pattern.meaning in understood or pattern.harmless:
            continue
        number = _LAYER.search(pattern.text)
        if number and int(number[1]) >= layers:
            continue  # layers beyond the last predict further tokens
        words = vocabulary(architecture.model_type, book.words)
        if not any(pattern.matches(f"layers.0.{word}") for word in words):
            pattern.place.refuse(f"module {pattern.text!r:.80} is not understood")
        understood.add(pattern.meaning)


def _by_the_most(architecture: Architecture) -> Architecture:
    """Call the format that most matrix elements have the network's, whatever the list's default."""
    counts = Counter(replace(architecture, head_format="").formats)
    (most, _), *_ = counts.most_common(1) or [(architecture.weight_format, 0)]
    if most == architecture.weight_format:
        return architecture
    before = architecture.weight_format
    blocks = {
        block: replace(
            block,
            formats=tuple(
                (role, name)
                for role in dict.fromkeys(block.roles(architecture.d_model))
                if (name := block.stored(role, before)) != most
            ),
        )
        for block in architecture.kinds
    }
    layers = tuple(blocks[block] for block in architecture.layers)
    return replace(architecture, layers=layers, weight_format=most)


def _sentence(architecture: Architecture, scheme: StorageScheme) -> str:
    """Sentence on the format of each part."""
    d = architecture.d_model
    having = Counter[str]()
    exceptions: dict[str, Counter[str]] = {}
    for block, layers in architecture.kinds.items():
        having.update(dict.fromkeys(block.roles(d), layers))
        for role, name in block.formats:
            exceptions.setdefault(name, Counter())[role] += layers

    def listed(roles: Counter[str]) -> str:
        return ", ".join(
            role if layers == having[role] else f"{role} (in {layers} of {having[role]} layers)"
            for role, layers in roles.items()
        )

    others = "".join(f"; {listed(roles)} as {name}" for name, roles in exceptions.items())
    head = f"; LM head as {architecture.head_format}" if architecture.head_format else ""
    return (
        f"linear layers are stored as {architecture.weight_format}{others}{head}; embeddings, "
        f"{'' if head else 'LM head, '}norms and biases as {architecture.plain_format} "
        f"({scheme.label})"
    )
