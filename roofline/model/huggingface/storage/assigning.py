"""Gives every matrix of a network the format its quantiser left it in."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Final

from roofline.model.architecture import UNQUANTISED, Architecture, Block
from roofline.model.huggingface.storage.place import Place
from roofline.model.huggingface.storage.rulebook import Book
from roofline.model.huggingface.storage.scheme import Scheme
from roofline.model.huggingface.storage.spellings import spellings, vocabulary
from roofline.model.parameters import formats

_PLAIN_OF_TYPE: Final = dict.fromkeys(("deepseek_v4", "deepseek_ref"), frozenset({"index-k"}))
"""Where the projections that compress keys are left in 16 bits, those of the index are too."""
_LAYER: Final = re.compile(r"layers\.(\d{1,9})")


def assign(architecture: Architecture, scheme: Scheme, notes: list[str]) -> Architecture:
    """The network with a format for every matrix, said in the notes.

    Raises
    ------
    UnsupportedModelError
        A rule names a module that is not understood, or a part of a matrix.
    """
    plain = architecture.plain_format
    book = Book(tuple(rule for rule in scheme.rules if not rule.pattern.foreign))
    book.check(len(architecture.layers))
    chosen = []
    known: dict[tuple[Block, Hashable], tuple[tuple[str, str], ...]] = {}
    for index, block in enumerate(architecture.layers):
        key = (block, book.open(index))
        if key not in known:
            known[key] = _of_block(architecture, block, scheme, book)
        chosen.append((block, known[key]))
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
    architecture: Architecture, block: Block, scheme: Scheme, book: Book
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
    found: dict[str, Place | None] = {}
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


def _head(architecture: Architecture, scheme: Scheme, book: Book) -> str:
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
