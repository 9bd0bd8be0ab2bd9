"""Gives every matrix of a network the format its quantiser left it in."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from roofline.model.architecture import UNQUANTISED, Architecture, Block
from roofline.model.huggingface.storage.place import Place
from roofline.model.huggingface.storage.scheme import Rule, Scheme
from roofline.model.huggingface.storage.spellings import spellings, vocabulary
from roofline.model.parameters import formats

MOST_GENERAL: Final = 256
"""Rules that do not name a layer: each is tried on every module."""
_HEADS: Final = ("lm_head", "head", "output_layer")
_PLAIN_OF_TYPE: Final = dict.fromkeys(("deepseek_v4", "deepseek_ref"), frozenset({"index-k"}))
"""Where the projections that compress keys are left in 16 bits, those of the index are too."""
_LAYER: Final = re.compile(r"layers\.(\d{1,9})")


@dataclass(slots=True)
class Book:
    """Rules of a scheme, ready to be asked about modules.

    Attributes
    ----------
    rules
        Those about the text decoder, in order.
    by_layer
        Places in that order of the rules that may hold in a layer; under None, in any.
    known
        What was found for modules whose name says no layer.
    used
        Places in that order of the rules that decided something.
    """

    rules: tuple[Rule, ...]
    by_layer: dict[int | None, list[int]] = field(default_factory=dict)
    known: dict[tuple[int, str], bool] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for index, rule in enumerate(self.rules):
            self.by_layer.setdefault(rule.pattern.layer, []).append(index)
        general = self.by_layer.setdefault(None, [])
        if len(general) > MOST_GENERAL:
            self.rules[general[MOST_GENERAL]].pattern.place.refuse(
                f"more than {MOST_GENERAL} modules are listed without their layer"
            )

    def of(self, module: str, layer: int) -> Rule | None:
        """The rule that decides about a module of a layer."""
        own = self.by_layer.get(layer, [])
        for index in sorted((*self.by_layer[None], *own)) if own else self.by_layer[None]:
            if self._holds(index, module, layer):
                self.used.add(index)
                return self.rules[index]
        return None

    def of_head(self) -> Rule | None:
        """The rule that decides about the LM head."""
        for index in self.by_layer[None]:
            if any(self.rules[index].pattern.matches(name) for name in _HEADS):
                self.used.add(index)
                return self.rules[index]
        return None

    def _holds(self, index: int, module: str, layer: int) -> bool:
        pattern = self.rules[index].pattern
        if not pattern.same_in_all_layers:
            return pattern.matches(f"layers.{layer}.{module}")
        key = (index, module)
        if key not in self.known:
            self.known[key] = pattern.matches(f"layers.0.{module}")
        return self.known[key]


def assign(architecture: Architecture, scheme: Scheme, notes: list[str]) -> Architecture:
    """The network with a format for every matrix, said in the notes.

    Raises
    ------
    UnsupportedModelError
        A rule names a module that is not understood, or a part of a matrix.
    """
    plain = architecture.plain_format
    book = Book(tuple(rule for rule in scheme.rules if not rule.pattern.foreign))
    chosen = [
        (block, _of_block(architecture, block, index, scheme, book))
        for index, block in enumerate(architecture.layers)
    ]
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
    architecture: Architecture, block: Block, index: int, scheme: Scheme, book: Book
) -> tuple[tuple[str, str], ...]:
    """Format of each matrix of a layer."""
    plain = UNQUANTISED | {linear.name for linear in block.extra}
    plain |= _PLAIN_OF_TYPE.get(architecture.model_type, frozenset())
    out = []
    for role in dict.fromkeys(block.roles(architecture.d_model)):
        base = "" if role in plain else scheme.default
        if role.startswith("experts-"):
            base = scheme.experts or base
        ways = spellings(role, architecture.model_type)
        found = _of_role(book, ways, index, base)
        out.append((role, found or architecture.plain_format))
    return tuple(out)


def _of_role(book: Book, ways: Iterable[tuple[str, ...]], layer: int, base: str) -> str:
    found: dict[str, Place | None] = {}
    for modules in ways:
        rules = [book.of(module, layer) for module in modules]
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


def _head(architecture: Architecture, scheme: Scheme, book: Book) -> str:
    rule = book.of_head()
    base = scheme.default if scheme.head else ""
    found = base if rule is None or rule.format is None else rule.format
    return "" if architecture.tied_embeddings else found


def _check_used(architecture: Architecture, book: Book) -> None:
    """Refuse a rule that names nothing we know."""
    layers = len(architecture.layers)
    for index, rule in enumerate(book.rules):
        pattern = rule.pattern
        if index in book.used or pattern.harmless:
            continue
        number = _LAYER.search(pattern.plain)
        if number and int(number[1]) >= layers:
            continue  # layers beyond the last predict further tokens
        prefix = f"layers.{pattern.layer or 0}."
        words = vocabulary(architecture.model_type)
        if any(pattern.matches(prefix + word) for word in words):
            continue
        pattern.place.refuse(f"module {pattern.text!r:.80} is not understood")


def _by_the_most(architecture: Architecture) -> Architecture:
    """Call the format that most matrix elements have the network's, whatever the list's default."""
    counts = Counter(formats(replace(architecture, head_format="")))
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


def _sentence(architecture: Architecture, scheme: Scheme) -> str:
    """What is stored how."""
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
